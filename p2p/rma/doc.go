// Package rma is the one-sided half of a process: windows, memory that the ranks of a communicator
// read and write without a call of the owner (MPI-4, chapter 12), and their synchronisation.
//
//	w := s.Prepare(c, mem, notices) // at each rank, then a collective that lets all have prepared
//	w.Put(buf, rank, at, 0)
//	err := w.Flush(rank)
//
// Over shared memory a rank reaches the memory of the others on its node, if it lies in a block
// ([Service.Allocate], fabric.Blocks), and does its operations itself: they are complete when the call
// returns, and accumulates take atomic instructions. Locks are words in shared memory there (fabric/bakery). Other
// synchronisation goes by frames there too, which come after the stores before them.
//
// Where an adapter reaches memory of another machine, it does puts and gets (fabric.Mover): see move.go.
//
// Elsewhere an operation is a frame of class RMA that the target's engine applies, with its lock held: the
// fabrics need nothing but frames. Frames of a pair are in order, so the
// answer to a flush says that all earlier operations are complete, at the target and, as answers are
// in order too, here. A window asks the engine for asynchronous progress, so that a target answers while its
// application computes.
//
// # Failures
//
// The target is the keeper of the lock of its memory. When a holder dies its lock is free: after the end of a
// peer no frame of it comes, and it writes no word. A rank that dies with an operation under way leaves a prefix of it.
//
// Under ULFM a failure is found by a synchronisation that needs the dead rank. That call ends the epoch:
// operations on living targets are complete when it returns, and locks are released. From then on all calls on
// the window fail in this process, until a validate ([Window.Reset]). Under run-through stabilization
// the failure of any member does so at once; locks are released by the holder's next synchronisation.
//
// Frames have the window's generation, the number of its validates, and older ones are dropped: a reset at
// all ranks leaves no lock, post or complete of an earlier epoch behind.
//
// Floor 4.
package rma
