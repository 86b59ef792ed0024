// Package release has the one store that Go lacks: a 64-bit store with release
// order and no more.
//
// sync/atomic's stores are sequentially consistent, which on amd64 means an
// XCHG: about 8 ns and a wait until the store buffer has drained, on every
// message. A producer that publishes a line needs only that the line's other
// words are visible first, which on amd64 any MOV gives. The MOV is in
// assembly so that it does not rest on what the compiler happens to do with
// plain stores. On other machines the atomic store is the release store, and
// under the race detector, which does not see assembly, it serves as well.
//
// Who then needs the store ordered before a later load (the check whether the
// receiver sleeps) pays for it elsewhere: see package futex.
//
// Floor 0. It imports nothing of Banyan's.
package release
