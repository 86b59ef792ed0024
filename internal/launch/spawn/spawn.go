package spawn

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

// Process is one rank's process as the launcher holds it.
type Process struct {
	Rank    int
	proc    *os.Process
	since   time.Time
	Conn    *os.File // the launcher's end of the PMI socket
	Stdout  Output
	Stderr  Output
	exits   Exits         // where it is registered, or nil
	Stdin   *os.File      // the pipe to rank 0, if there is one
	quit    [2]*os.File   // a pipe: closing its second end ends the feeding from a terminal
	Exited  chan struct{} // closed when the process has ended
	Drained chan struct{} // closed when all that it said on conn has been handled

	mu      sync.Mutex
	reaped  bool // the process id may belong to another process
	stopped bool // the launcher has begun to end this rank
}

// PID is the process id of the rank.
func (c *Process) PID() int { return c.proc.Pid }

// Signal sends a signal to the rank and to what it has started. The process
// group exists until its leader is reaped, so it can be nobody else's.
func (c *Process) Signal(sig unix.Signal, stop bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return
	}
	c.stopped = c.stopped || stop
	_ = unix.Kill(-c.proc.Pid, sig) // ESRCH: there is nobody left to tell
}

// Wait returns how the process ended.
func (c *Process) Wait() End {
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

	end := End{Rank: c.Rank, PID: pid, After: after}
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

// Spawner starts the ranks of a job on this machine from one thread, which lives as long as
// the job: the kernel's PDEATHSIG acts when the forking thread ends. A rank
// inherits this thread's affinity with its first instruction, so it holds for
// every thread that the rank will ever have.
type Spawner struct {
	ID        string // of the job
	N         int    // ranks of the job
	Argv      []string
	Dir       string
	Env       []string
	Bind      Bind
	OnFailure Policy
	OpenExits OpenExits
	Stdin     io.Reader // of rank 0

	// The ranks that this process itself starts, and the position in cpus for the
	// First of them.
	First, Count, FirstCPU int

	path string // set by check
	cpus []int  // BindCore: where ranks go, in turn; set by check

	OnStart  func(*Process)
	exits    Exits         // or nil
	Finished chan struct{} // closed when all ranks have ended
}

// Run starts the ranks in order and sends the result to started. It returns
// when the job is over, and its thread ends with it.
func (s *Spawner) Run(started chan<- error) {
	runtime.LockOSThread() // never unlocked: its affinity is spoilt
	started <- s.startAll()
	<-s.Finished
	s.closeExits()
}

func (s *Spawner) startAll() error {
	if err := s.startExits(); err != nil {
		return err
	}
	for i := range s.Count {
		rank := s.First + i
		if s.Bind == BindCore {
			if err := affinity.Pin(s.cpus[(s.FirstCPU+i)%len(s.cpus)]); err != nil {
				return fmt.Errorf("launch: bind rank %d: %w", rank, err)
			}
		}
		c, err := s.start(rank)
		if err != nil {
			return fmt.Errorf("launch: start rank %d: %w", rank, Explain(err))
		}
		s.register(c)
		offer(c.proc.Pid)
		s.OnStart(c)
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

// Explain adds the cure to an error of a start that lacks a resource.
func Explain(err error) error {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: each rank needs 4 descriptors, raise the limit (ulimit -n)", err)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("%w: raise the limit on processes (ulimit -u, or pids.max of the control group)", err)
	}
	return err
}

// start makes one rank's descriptors and its process.
func (s *Spawner) start(rank int) (_ *Process, err error) {
	c := &Process{Rank: rank, Exited: make(chan struct{}), Drained: make(chan struct{})}
	var ours, theirs []*os.File
	defer func() {
		CloseAll(theirs)
		if err != nil {
			CloseAll(ours)
		}
	}()
	files := make([]*os.File, pmiFD+1)
	if c.Stdin, files[0], err = s.stdinOf(rank); err != nil {
		return nil, err
	}
	if c.Stdin != nil {
		ours = append(ours, c.Stdin)
	}
	if files[0] != s.Stdin {
		theirs = append(theirs, files[0])
	}
	if c.Stdin != nil {
		if c.quit[0], c.quit[1], err = os.Pipe(); err != nil {
			return nil, err
		}
		ours = append(ours, c.quit[:]...)
	}
	for i, t := range []*Output{&c.Stdout, &c.Stderr} {
		t.heard = make(chan struct{})
		if t.f, files[1+i], err = os.Pipe(); err != nil {
			return nil, err
		}
		ours, theirs = append(ours, t.f), append(theirs, files[1+i])
	}
	if c.Conn, files[pmiFD], err = socketPair(); err != nil {
		return nil, err
	}
	ours, theirs = append(ours, c.Conn), append(theirs, files[pmiFD])
	more, env := s.inherited(s.envOf(rank))
	c.since = time.Now()
	c.proc, err = os.StartProcess(s.path, s.Argv, &os.ProcAttr{
		Dir: s.Dir, Env: env, Files: append(files, more...), Sys: s.attributes(),
	})
	return c, err
}

func (s *Spawner) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if s.OnFailure == Abort {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

// stdinOf returns what a rank reads and, if the launcher has to feed it, the
// writing end.
func (s *Spawner) stdinOf(rank int) (feed, read *os.File, err error) {
	if rank > 0 || s.Stdin == nil {
		read, err = os.Open(os.DevNull)
		return nil, read, err
	}
	if f, ok := s.Stdin.(*os.File); ok && !IsTerminal(f) {
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

// CloseAll closes files, whatever the errors.
func CloseAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
