package rendezvous

import (
	"net"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// unauthenticatedMax bounds the unauthenticated connections, beyond one for each rank of the
	// job: all ranks may come at once. At a thousand other connections a second, a rank on a busy
	// machine has half a second for its proof.
	unauthenticatedMax = 512
	// unauthenticatedShare is the part of the descriptors of rank 0 that they may take.
	unauthenticatedShare = 4
)

// unauthenticated are the connections that have not proved to be a rank, the oldest first. Every
// connection is accepted; beyond the limit the oldest is dropped. A proof takes two round trips, so
// a rank is dropped only if a crowd comes in that time, and it connects again. A limit on accepting
// would let idle connections keep all ranks out.
type unauthenticated struct {
	limit int

	mu    sync.Mutex
	conns []net.Conn
}

// newUnauthenticated is for a job of size ranks.
func newUnauthenticated(size int) unauthenticated {
	limit := unauthenticatedMax + size
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil && files.Cur/unauthenticatedShare < uint64(limit) {
		limit = max(int(files.Cur/unauthenticatedShare), 1)
	}
	return unauthenticated{limit: limit}
}

// add keeps a new connection. It drops the oldest if there are too many.
func (u *unauthenticated) add(conn net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.conns) == u.limit {
		u.drop()
	}
	u.conns = append(u.conns, conn)
}

// remove takes a connection out. It reports false if it has been dropped.
func (u *unauthenticated) remove(conn net.Conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := slices.Index(u.conns, conn)
	if i >= 0 {
		u.conns = slices.Delete(u.conns, i, i+1)
	}
	return i >= 0
}

// relieve drops the oldest connection for its descriptor. It reports false if there is none.
func (u *unauthenticated) relieve() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.conns) == 0 {
		return false
	}
	u.drop()
	return true
}

// drop closes the oldest. Preconditions: mu is held, there is one.
func (u *unauthenticated) drop() {
	u.conns[0].Close()
	u.conns = slices.Delete(u.conns, 0, 1)
}
