// Package chaos runs random programs of collectives and recovery operations on simulated ranks,
// some of which are killed, and checks each rank's results against an oracle. Floor 8.
package chaos
