// Package epoll waits for descriptors in a goroutine, through the runtime's own
// poller. A goroutine that sleeps in a system call keeps its processor until the
// runtime's monitor takes it away, and the one that it has woken waits for that:
// a process that is bound to a core has one processor.
//
//	s, err := epoll.New("the ends of peers")
//	err = s.Add(fd, key, unix.EPOLLIN|unix.EPOLLET)
//	go func() { failed <- s.Wait(nil, func(key int32) { … }) }()
//	…
//	s.Close()
//
// The set itself is non-blocking, and the runtime watches it as it does sockets. The kernel
// hands back a key of the caller's: a descriptor's number may come back while an event of
// its predecessor is on the way. Add what reports an event once (EPOLLET, EPOLLONESHOT): what
// stays ready keeps Wait busy.
//
// Any goroutine may call any method at any time, but for Wait, which is one goroutine's.
//
// Floor 0: it knows nothing of fabrics.
package epoll
