package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/affinity"
)

// child is one rank's process as the launcher holds it.
type child struct {
	rank    int
	proc    *os.Process
	since   time.Time
	conn    *os.File // the launcher's end of the PMI socket
	out     tail
	err     tail
	exits   Exits         // where it is registered, or nil
	stdin   *os.File      // the pipe to rank 0, if there is one
	quit    [2]*os.File   // a pipe: closing its second end ends the feeding from a terminal
	exited  chan struct{} // closed when the process has ended
	drained chan struct{} // closed when all that it said on conn has been handled

	mu      sync.Mutex
	reaped  bool // the process id may belong to another process
	stopped bool // the launcher has begun to end this rank
}

// pid is the process id of the rank.
func (c *child) pid() int { return c.proc.Pid }

// signal sends a signal to the rank and to what it has started. The process
// group exists until its leader is reaped, so it can be nobody else's.
func (c *child) signal(sig unix.Signal, stop bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return
	}
	c.stopped = c.stopped || stop
	_ = unix.Kill(-c.proc.Pid, sig) // ESRCH: there is nobody left to tell
}

// wait returns how the process ended.
func (c *child) wait() End {
	pid := c.proc.Pid
	var info unix.Siginfo
	for unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	after := time.Since(c.since)
	c.mu.Lock()
	if c.stopped {
		_ = unix.Kill(-pid, unix.SIGKILL) // what the rank has started, and left behind
	}
	c.reaped = true
	stopped := c.stopped
	c.mu.Unlock()

	end := End{Rank: c.rank, PID: pid, After: after}
	c.forget()
	state, err := c.proc.Wait()
	if err != nil {
		end.Code = 1 // somebody else has reaped it: all that is known is that it is gone
		return end
	}
	if ws := state.Sys().(syscall.WaitStatus); ws.Signaled() {
		end.Signal, end.Stopped = ws.Signal(), stopped
	} else {
		end.Code = ws.ExitStatus()
	}
	return end
}

// spawner starts the ranks of a job on this machine from one thread, which lives as long as
// the job: the kernel's PDEATHSIG acts when the forking thread ends. A rank
// inherits this thread's affinity with its first instruction, so it holds for
// every thread that the rank will ever have.
type spawner struct {
	id        string // of the job
	n         int    // ranks of the job
	argv      []string
	dir       string
	env       []string
	bind      Bind
	onFailure Policy
	openExits OpenExits
	stdin     io.Reader // of rank 0

	// The ranks that this process itself starts, and the position in cpus for the
	// first of them.
	first, count, firstCPU int

	path string // set by check
	cpus []int  // BindCore: where ranks go, in turn; set by check

	onStart  func(*child)
	exits    Exits         // or nil
	finished chan struct{} // closed when all ranks have ended
}

// run starts the ranks in order and sends the result to started. It returns
// when the job is over, and its thread ends with it.
func (s *spawner) run(started chan<- error) {
	runtime.LockOSThread() // never unlocked: its affinity is spoilt
	started <- s.startAll()
	<-s.finished
	s.closeExits()
}

func (s *spawner) startAll() error {
	if err := s.startExits(); err != nil {
		return err
	}
	for i := range s.count {
		rank := s.first + i
		if s.bind == BindCore {
			if err := affinity.Pin(s.cpus[(s.firstCPU+i)%len(s.cpus)]); err != nil {
				return fmt.Errorf("launch: bind rank %d: %w", rank, err)
			}
		}
		c, err := s.start(rank)
		if err != nil {
			return fmt.Errorf("launch: start rank %d: %w", rank, withCure(err))
		}
		s.register(c)
		offer(c.proc.Pid)
		s.onStart(c)
	}
	return nil
}

// offered is how much sooner than the launcher a rank is killed where memory runs out, in thousandths of what there is.
const offered = 300

// offer has the kernel take a rank and not the launcher where their control group or the machine runs out of memory: the others
// survive the one, and nobody starts, reports and ends a job without the other. Where it cannot be written nothing changes.
func offer(pid int) {
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if n, ok := offeredOf(string(own)); err == nil && ok {
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(strconv.Itoa(n)), 0)
	}
}

// offeredOf is a rank's oom_score_adj by that of the launcher.
func offeredOf(own string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(own))
	return min(n+offered, 1000), err == nil && n >= -1000 && n <= 1000
}

func withCure(err error) error {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: each rank needs 4 descriptors, raise the limit (ulimit -n)", err)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("%w: raise the limit on processes (ulimit -u, or pids.max of the control group)", err)
	}
	return err
}

// start makes one rank's descriptors and its process.
func (s *spawner) start(rank int) (_ *child, err error) {
	c := &child{rank: rank, exited: make(chan struct{}), drained: make(chan struct{})}
	var ours, theirs []*os.File
	defer func() {
		closeAll(theirs)
		if err != nil {
			closeAll(ours)
		}
	}()
	files := make([]*os.File, pmiFD+1)
	if c.stdin, files[0], err = s.stdinOf(rank); err != nil {
		return nil, err
	}
	if c.stdin != nil {
		ours = append(ours, c.stdin)
	}
	if files[0] != s.stdin {
		theirs = append(theirs, files[0])
	}
	if c.stdin != nil {
		if c.quit[0], c.quit[1], err = os.Pipe(); err != nil {
			return nil, err
		}
		ours = append(ours, c.quit[:]...)
	}
	for i, t := range []*tail{&c.out, &c.err} {
		t.heard = make(chan struct{})
		if t.f, files[1+i], err = os.Pipe(); err != nil {
			return nil, err
		}
		ours, theirs = append(ours, t.f), append(theirs, files[1+i])
	}
	if c.conn, files[pmiFD], err = socketPair(); err != nil {
		return nil, err
	}
	ours, theirs = append(ours, c.conn), append(theirs, files[pmiFD])
	more, env := s.inherited(s.envOf(rank))
	c.since = time.Now()
	c.proc, err = os.StartProcess(s.path, s.argv, &os.ProcAttr{
		Dir: s.dir, Env: env, Files: append(files, more...), Sys: s.attributes(),
	})
	return c, err
}

func (s *spawner) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if s.onFailure == Abort {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

// stdinOf returns what a rank reads and, if the launcher has to feed it, the
// writing end.
func (s *spawner) stdinOf(rank int) (feed, read *os.File, err error) {
	if rank > 0 || s.stdin == nil {
		read, err = os.Open(os.DevNull)
		return nil, read, err
	}
	if f, ok := s.stdin.(*os.File); ok && !isTerminal(f) {
		return nil, f, nil
	}
	read, feed, err = os.Pipe()
	return feed, read, err
}

// socketPair makes a stream socket: our end is polled, theirs blocks, as
// programs in C expect.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "pmi")
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("socketpair: %w", err), unix.Close(fds[0]), theirs.Close())
	}
	return os.NewFile(uintptr(fds[0]), "pmi"), theirs, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
