// Package flusher sends what a provider keeps back for others that may follow, if the process computes instead.
//
// A provider may keep short frames back until its next call, and post them together. If that call does not come, a
// goroutine, the flusher, sends them: it looks every few microseconds, and sends what is there in two looks.
//
// Floor 0. It imports packages futex and release.
package flusher
