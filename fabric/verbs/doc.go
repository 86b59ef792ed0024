// Package verbs is the provider for InfiniBand, RoCE and iWARP adapters, by libibverbs. It has the sockets of package tcp,
// and beside them a lane over RDMA to each peer that has an adapter of the same kind.
//
// # Lanes
//
// A lane is a reliable-connected queue pair, over one port. Its ends meet by messages over the authenticated sockets, so an unauthenticated
// peer never gets a queue pair; links.go says how those of iWARP are connected. The first frames go over the sockets; then a note says that the next ones come over the
// lane. A frame is copied to a registered buffer and sent. It is received in a buffer of a queue that all peers
// share, in which each peer has room for as many messages as it has credit: a message never finds no buffer. Credit
// comes back with frames, or in messages of its own.
//
// Short frames to one peer that follow each other at once share a call into C and a doorbell: see batch.go.
//
// A message from registered memory ([fabric.Registrar]) is read by the receiver's adapter, many at once, over queue pairs for reads
// alone, one for each port: see reads.go. Peers can read all registered memory. They write only memory that was shared
// ([fabric.Sharer]), by moves: see moves.go. With iWARP they could write any whose key a read of this process has shown them.
//
// # Failures
//
// The end of a process shows at its sockets. Its arrived frames are delivered before that is reported. If a queue
// pair fails while both processes live, as when a cable is pulled, all frames that the peer's adapter has not
// acknowledged go over the sockets, and the peer drops those that it has. Then a new pair takes over, on the next port that both
// processes have, or after a while on the same one. A pair for reads that fails is replaced, too; its messages are read over other
// ports meanwhile, or sent as frames. Work that has no answer for too long fails its pair: see watch.go.
//
// An accepted frame is lost with this process until the peer's adapter has it, so EndBurst and Unsent wait for the
// acknowledgement.
//
// # Build
//
// The part in C needs cgo and the headers of libibverbs, for iWARP those of librdmacm too. The libraries are loaded when an endpoint
// is opened, so a program runs where there are none. Without cgo, or the headers, Open says so.
//
// Package ccall calls the functions that post and look at completions, where it knows the machine; else cgo does.
//
// Floor 2. It imports packages ccall and tcp.
package verbs
