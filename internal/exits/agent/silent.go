package agent

import (
	"net"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// silent are the connections that have sent nothing, by user, the oldest first. Connections are
// always accepted: if one of a user is too many, the user's oldest is dropped, so that users cannot
// keep each other out. A process sends Hello right after it has connected.
type silent struct {
	mu    sync.Mutex
	users map[int][]*net.UnixConn
	n     int
}

// add keeps a new connection of a user.
func (s *silent) add(user int, conn *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == nil {
		s.users = make(map[int][]*net.UnixConn)
	}
	if len(s.users[user]) >= MaxSilent {
		s.drop(user)
	}
	if s.n >= MaxTalks {
		s.drop(s.busiest())
	}
	s.users[user] = append(s.users[user], conn)
	s.n++
}

// remove takes a connection out, if it is there.
func (s *silent) remove(user int, conn *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.users[user], conn); i >= 0 {
		s.forget(user, i)
	}
}

// relieve drops one connection for its descriptor, of the user with the most.
func (s *silent) relieve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n > 0 {
		s.drop(s.busiest())
	}
}

// busiest is the user with the most connections. Precondition: mu is held.
func (s *silent) busiest() (user int) {
	for u := range s.users {
		if len(s.users[u]) > len(s.users[user]) {
			user = u
		}
	}
	return user
}

// drop closes the oldest connection of a user without unread data, if there is one: data on the
// others are about to be read. Precondition: mu is held.
func (s *silent) drop(user int) {
	for i, conn := range s.users[user] {
		if !spoken(conn) {
			conn.Close()
			s.forget(user, i)
			return
		}
	}
}

func (s *silent) forget(user, i int) {
	if s.users[user] = slices.Delete(s.users[user], i, i+1); len(s.users[user]) == 0 {
		delete(s.users, user)
	}
	s.n--
}

// spoken reports whether there are data to be read.
func spoken(conn *net.UnixConn) (yes bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		yes = n == 1 && err == nil
	})
	return yes && err == nil
}
