// Package proc holds the words for processes that every other package shares:
// who a process is ([ID]) and how it ended ([Cause]).
//
// A process id is job-wide and is never used again; a rank is a position in a
// communicator's group and maps to a process id. Messages carry neither: their
// source is the process at the other end of the link.
//
// Floor 0. Both the provider contract (package fabric) and the words of failure
// (package ft) stand on floor 1 and may not import each other, so what they
// share lives below them. It imports nothing of Banyan's.
package proc
