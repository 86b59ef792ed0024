// Package proc holds the terms for processes that all packages share:
// the identity of a process ([ID]) and the cause of its end ([Cause]).
//
// A process id is job-wide and is never used again; a rank is a position in a communicator's group
// and maps to a process id. Messages carry neither: their source is the process at the other end of
// the link.
//
// Floor 0. The provider contract (package fabric) and the terms of failure (package ft) are both on
// floor 1 and may not import each other, so their common part is below them. It imports nothing of
// Banyan's.
package proc
