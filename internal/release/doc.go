// Package release supplements Go for memory that two cores alternately write: a 64-bit store with
// release order and no more, and the pause of a spinning core.
//
// sync/atomic's stores are sequentially consistent, which on amd64 means an XCHG: about 8 ns and a
// wait until the store buffer has drained, on every message. A producer that publishes a line needs
// only that the line's other words are visible first. On amd64 that is a plain store: the machine
// keeps stores in order, and so does the compiler, which threads every store through one chain of
// memory states; a test checks the generated code. It is no assembly, because a call's own stores
// would stand in the store buffer between those to the ring. On other machines the atomic store is
// the release store, and under the race detector, which would take the plain one for a race, it
// serves as well.
//
// A caller that also needs the store ordered before a later load (the check whether the receiver
// sleeps) pays for it elsewhere: see package futex.
//
// Floor 0. It imports nothing of Banyan's.
package release
