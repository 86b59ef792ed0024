package exits

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// Table answers whether processes have ended. Its methods may be called
// concurrently, but not with Close or after it.
type Table struct {
	log   mapping
	fds   []int
	space uint32 // this process's pid namespace
	outer bool   // it is the loader's too

	// seen is the number of entries that have been read: written with mu, read by Ended without.
	// The log is only searched when it differs from head.
	seen atomic.Uint64
	mu   sync.Mutex
	// asked has the pids of earlier queries, and the first that were registered: for these the first query costs
	// nothing. So memory is bounded, for any events on the machine. foreseen is the number of the latter.
	asked    askedPIDs
	foreseen int
}

// askedPIDs maps pids to their words. It is read without a lock. The part that gains a pid is replaced: with
// parts, the cost of n pids does not grow with the square of n before there are many thousands.
type askedPIDs [256]atomic.Pointer[map[int]*atomic.Uint64]

func (a *askedPIDs) part(pid int) *atomic.Pointer[map[int]*atomic.Uint64] {
	return &a[uint(pid)%uint(len(a))]
}

// get returns a pid's word, or nil.
func (a *askedPIDs) get(pid int) *atomic.Uint64 {
	if part := a.part(pid).Load(); part != nil {
		return (*part)[pid]
	}
	return nil
}

// add adds a pid. Precondition: the table's mu is held.
func (a *askedPIDs) add(pid int, word *atomic.Uint64) {
	part := map[int]*atomic.Uint64{pid: word}
	if old := a.part(pid).Load(); old != nil {
		maps.Copy(part, *old)
	}
	a.part(pid).Store(&part)
}

// The words of askedPIDs: in the lower half the status; known, of processes that are or
// were registered; and above, how often exec has been called.
const (
	known   = 1 << 32
	oneExec = 1 << 33
)

// after is a word of askedPIDs after one more entry.
func (e entry) after(word uint64) uint64 {
	execs := word &^ (oneExec - 1)
	switch e.status {
	case Withdrawn:
		return execs
	case Replaced:
		return word + oneExec
	}
	return execs | known | uint64(uint32(e.status))
}

// New makes a table of the descriptors log, bell and links, and takes them over, also when it
// fails. It checks their types.
func New(fds []int) (*Table, error) {
	t, err := newTable(fds)
	if err != nil {
		return nil, errors.Join(err, closeFDs(fds))
	}
	return t, nil
}

func newTable(fds []int) (*Table, error) {
	if len(fds) < MinFiles || len(fds) > MaxFiles {
		return nil, fmt.Errorf("exits: %d descriptors: a log has %d to %d", len(fds), MinFiles, MaxFiles)
	}
	for i, fd := range fds {
		if err := checkKind(fd, kindOf(i)); err != nil {
			return nil, err
		}
		unix.CloseOnExec(fd)
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return nil, fmt.Errorf("exits: the pid namespace of this process: %w", err)
	}
	log, err := mapLog(fds[0])
	if err != nil {
		return nil, err
	}
	if got := log.word(MagicAt); got != Magic {
		return nil, errors.Join(fmt.Errorf("exits: the log begins with %#x, not %#x: it is of another version of Banyan", got, Magic), log.unmap())
	}
	t := &Table{log: log, fds: fds, space: uint32(st.Ino)}
	t.outer = log.half(SpaceAt) == t.space
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.Store(oldest(log.head()))
	t.catchUp()
	return t, nil
}

// oldest is the first entry that the log still has.
func oldest(head uint64) uint64 { return head - min(head, Entries) }

// FD is a descriptor that is always readable and that an edge-triggered epoll
// reports whenever the log has a new entry. It is the table's: do not close it.
func (t *Table) FD() int { return t.fds[1] }

// Ended reports whether and how the process with a pid has ended, or is bound to in
// microseconds (package comment), as this process's pid namespace numbers it: of several with this pid the one that was
// registered last. Of one that was never registered it reports false for ever.
// It costs two loads and a look-up; it takes a lock and goes through the news
// where there are some, and at the first question for a pid.
func (t *Table) Ended(pid int) (proc.Cause, bool) {
	ended := t.ended(pid)
	if ended&known == 0 || int32(ended) == Registered {
		return proc.Cause{}, false
	}
	return causeOf(int32(ended)), true
}

// Entries is the number of entries that have been read, with new ones. It costs two loads if there are no new ones.
// A polling process queries the ends of its peers when the number has changed.
func (t *Table) Entries() uint64 {
	if t.log.head() != t.seen.Load() {
		t.mu.Lock()
		t.catchUp()
		t.mu.Unlock()
	}
	return t.seen.Load()
}

// Watched reports whether a process with a pid is registered and has not ended: Ended will report
// the end of this process. A caller that relies on Ended calls Watched while the process is known
// to live. Pids come back, also to unregistered processes: an end that Ended reports already may be
// that of an earlier one.
func (t *Table) Watched(pid int) bool {
	ended := t.ended(pid)
	return ended&known != 0 && int32(ended) == Registered
}

// Execs is the number of calls of exec by registered processes with a pid, as far as the log has it.
// If the number changes, the program that ran there has been replaced. It costs the same as Ended.
func (t *Table) Execs(pid int) uint32 { return uint32(t.ended(pid) / oneExec) }

func (t *Table) ended(pid int) uint64 {
	t.Entries()
	word := t.asked.get(pid)
	if word == nil {
		word = t.ask(pid)
	}
	return word.Load()
}

// catchUp reads new entries of the log, up to an entry that is being written. Preconditions: mu is
// held.
func (t *Table) catchUp() {
	head := t.log.head()
	i := max(t.seen.Load(), oldest(head))
	for ; i < head; i++ {
		e, ok := t.log.entry(i)
		if !ok {
			if head = t.log.head(); i >= oldest(head) {
				break
			}
			i = oldest(head) - 1 // it was overwritten: its contents are lost
			continue
		}
		pid := t.pidOf(e)
		word := t.asked.get(pid)
		if word == nil && e.status == Registered && pid > 0 && t.foreseen < mostForeseen {
			t.foreseen++
			word = new(atomic.Uint64)
			t.asked.add(pid, word)
		}
		if word != nil {
			word.Store(e.after(word.Load()))
		}
	}
	t.seen.Store(i)
}

// mostForeseen bounds the registered processes that a table keeps without a query: those of a job.
const mostForeseen = 1024

// ask begins to keep the entries of the log for a pid.
func (t *Table) ask(pid int) *atomic.Uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if word := t.asked.get(pid); word != nil { // asked for at the same time
		return word
	}
	t.catchUp()
	word := new(atomic.Uint64)
	seen := t.seen.Load()
	for i := t.registered(pid, seen); i < seen; i++ {
		if e, ok := t.log.entry(i); ok && t.pidOf(e) == pid {
			word.Store(e.after(word.Load()))
		}
	}
	t.asked.add(pid, word)
	return word
}

// registered is the entry with which a pid was registered last, among those before seen, or
// the oldest one. It searches from the end, where those of this job are.
func (t *Table) registered(pid int, seen uint64) uint64 {
	first := oldest(seen)
	for i := seen; i > first; i-- {
		if e, ok := t.log.entry(i - 1); ok && e.status == Registered && t.pidOf(e) == pid {
			return i - 1
		}
	}
	return first
}

// pidOf is an entry's pid in this process's namespace, -1 if it has none there.
func (t *Table) pidOf(e entry) int {
	switch {
	case t.outer:
		return int(e.pid)
	case e.space == t.space:
		return int(e.inner)
	}
	return -1
}

// causeOf reads a status of wait(2).
func causeOf(status int32) proc.Cause {
	ws := syscall.WaitStatus(status)
	switch {
	case status == Unknown:
		return proc.Cause{Kind: proc.Unknown}
	case ws.Signaled():
		return proc.Cause{Kind: proc.Signaled, Code: int32(ws.Signal())}
	default:
		return proc.Cause{Kind: proc.Exited, Code: int32(ws.ExitStatus())}
	}
}

// Close unmaps the log and closes the descriptors.
func (t *Table) Close() error {
	return errors.Join(t.log.unmap(), closeFDs(t.fds))
}

func closeFDs(fds []int) error {
	var errs []error
	for _, fd := range fds {
		if err := unix.Close(fd); err != nil {
			errs = append(errs, os.NewSyscallError("close", err))
		}
	}
	return errors.Join(errs...)
}
