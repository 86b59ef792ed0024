// Package collectives tests collectives on whole ranks, against an oracle: blocking and
// non-blocking, over every tree, with deaths, misuse and uniform results. Floor 8.
package collectives
