// Package epoll waits for descriptors in a goroutine, through the runtime's own poller. A goroutine
// that sleeps in a system call keeps its processor until the runtime's monitor takes it away, and a
// goroutine that it has woken waits for that: a process that is bound to a core has one processor.
//
//	s, err := epoll.New("the ends of peers")
//	err = s.Add(fd, key, unix.EPOLLIN|unix.EPOLLET)
//	go func() { failed <- s.Wait(nil, func(key int32) { … }) }()
//	…
//	s.Close()
//
// The set itself is non-blocking, and the runtime watches it as it does sockets. The kernel returns
// a key of the caller's: a descriptor's number may come back while an event of its predecessor is
// on the way. Add descriptors that report an event once (EPOLLET, EPOLLONESHOT): a descriptor that
// stays ready keeps Wait busy.
//
// Any goroutine may call any method at any time, except Wait, which is for one goroutine.
//
// Floor 0: it is independent of fabrics.
package epoll
