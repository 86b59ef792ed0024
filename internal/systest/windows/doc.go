// Package windows tests windows on whole ranks: every operation and synchronisation, random programs
// against a sequential oracle, and deaths at every step of them. Floor 8.
package windows
