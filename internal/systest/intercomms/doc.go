// Package intercomms tests collectives on intercommunicators on whole ranks: against a sequential oracle, with wrong
// arguments, and with deaths at any step, simulated and by SIGKILL. Floor 8.
package intercomms
