// Package flusher sends the frames that a provider holds back for a common post, if the process computes instead.
//
// A provider may hold short frames back until its next call, and post them at once. If that call does not come, a
// goroutine, the flusher, sends them: it checks every few microseconds, and sends frames that it has found twice.
//
// Floor 0. It imports packages futex and release.
package flusher
