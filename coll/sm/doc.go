// Package sm has collectives of few bytes in memory that the ranks of a communicator share.
//
// There is no tree. Each rank writes its part to its slot of a segment (package fabric/board), enters
// the next step, and reads the slots of all ranks, or the entries of others for groups of them. So each needs one turn at a processor, where many
// share it. A failure or a revocation ends the wait at each rank that learns of it, as if it waited
// for a message. The communicator has no collectives any more then, and the one of the next validate
// starts without a segment.
//
// A rank that has seen a step to its end wakes neighbours in a tree, and they wake theirs. On a node among several a rank
// may sleep on after a failure, as messages of other nodes may still come; if that neighbour has failed, nobody wakes it. So
// it looks again after pauses of one to 64 milliseconds.
//
//	segment, err := memory.Find(comm)   // by messages; nil where some rank cannot
//	_, err = segment.Barrier(barrier)
//	done, err := segment.Allreduce(allreduce, buf, buf, op)
//
// All ranks call the same methods in the same order, each from the goroutine of its blocking
// collective. A rank that waits for all gets an error where another one has come for another operation, and the next
// operation is right again.
//
// Floor 4.5.
package sm
