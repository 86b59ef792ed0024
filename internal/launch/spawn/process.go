package spawn

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// KillGrace is the time between SIGTERM and SIGKILL when a job is ended.
const KillGrace = 5 * time.Second

// Process is a rank of this machine.
type Process struct {
	Rank
	proc  *os.Process
	since time.Time
	conn  *os.File // PMI
	out   [2]Output
	exits Exits // where it is registered, or nil

	mu      sync.Mutex
	reaped  bool // the process id may belong to another process
	stopped bool // the launcher has started to end this rank
}

// PID is the process id of the rank.
func (p *Process) PID() int { return p.proc.Pid }

// Signal sends a signal to the rank and its children. stop: the launcher ends the rank. The process
// group exists until its leader is reaped, so its number is not reused.
func (p *Process) Signal(sig unix.Signal, stop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		p.stopped = p.stopped || stop
		_ = unix.Kill(-p.proc.Pid, sig) // ESRCH: the group has ended
	}
}

// wait is Rank's Wait.
func (p *Process) wait() End {
	end := p.reap()
	close(p.Exited)
	for i := range p.out {
		p.out[i].Ended()
	}
	if p.Input != nil {
		p.Input.End()
	}
	_ = p.conn.SetDeadline(time.Now().Add(DrainGrace)) // in case other processes hold the socket
	return end
}

func (p *Process) reap() End {
	AwaitExit(p.PID())
	end := End{Rank: p.Number, PID: p.PID(), After: time.Since(p.since)}
	p.mu.Lock()
	if p.stopped {
		_ = unix.Kill(-p.PID(), unix.SIGKILL) // children that the rank has left behind
	}
	p.reaped = true
	stopped := p.stopped
	p.mu.Unlock()

	if p.exits != nil {
		_ = p.exits.Forget(p.PID()) // without a record peers detect the end by other means
	}
	state, err := p.proc.Wait()
	if err != nil {
		end.Code = 1 // other code of this process has reaped it: its status is unknown
		return end
	}
	if ws := state.Sys().(syscall.WaitStatus); ws.Signaled() {
		end.Signal, end.Stopped = ws.Signal(), stopped
	} else {
		end.Code = ws.ExitStatus()
	}
	return end
}

// AwaitExit waits until a child has ended, and does not reap it: until then its number is not
// reused.
func AwaitExit(pid int) {
	var info unix.Siginfo
	for unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// Files are the descriptors of a process that is being started: the launcher's ends and its own.
type Files struct{ ours, theirs []*os.File }

// Close closes the child's ends, and the launcher's if the start has failed.
func (f *Files) Close(err error) {
	for _, x := range f.theirs {
		x.Close()
	}
	for _, x := range f.ours {
		if err != nil {
			x.Close()
		}
	}
}

// Pipe returns both ends of a pipe, of which the child reads or writes one.
func (f *Files) Pipe(childReads bool) (ours, theirs *os.File, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	ours, theirs = r, w
	if childReads {
		ours, theirs = w, r
	}
	f.ours, f.theirs = append(f.ours, ours), append(f.theirs, theirs)
	return ours, theirs, nil
}

// socket returns both ends of a stream socket: ours is polled, theirs blocks, as programs in C
// expect.
func (f *Files) socket() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "pmi")
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("socketpair: %w", err), unix.Close(fds[0]), theirs.Close())
	}
	ours = os.NewFile(uintptr(fds[0]), "pmi")
	f.ours, f.theirs = append(f.ours, ours), append(f.theirs, theirs)
	return ours, theirs, nil
}

// start makes one rank's descriptors and its process.
func (s *Spawner) start(rank int) (_ *Process, err error) {
	p := &Process{exits: s.exits}
	p.Rank = Rank{
		Number: rank, Out: &p.out[0], Err: &p.out[1], Wait: p.wait,
		Exited: make(chan struct{}), Drained: make(chan struct{}),
	}
	var f Files
	defer func() { f.Close(err) }()
	var std [pmiFD + 1]*os.File
	if std[0], err = s.input(p, &f); err != nil {
		return nil, err
	}
	for i := range p.out {
		p.out[i].written = make(chan struct{})
		if p.out[i].f, std[1+i], err = f.Pipe(false); err != nil {
			return nil, err
		}
	}
	if p.conn, std[pmiFD], err = f.socket(); err != nil {
		return nil, err
	}
	p.PMI = p.conn
	more, env := s.inherited(rank, s.envOf(rank))
	attr := &syscall.SysProcAttr{Setpgid: true}
	if s.OnFailure == Abort {
		attr.Pdeathsig = syscall.SIGKILL
	}
	p.since = time.Now()
	p.proc, err = os.StartProcess(s.path, s.Argv, &os.ProcAttr{
		Dir: s.Dir, Env: env, Files: append(std[:], more...), Sys: attr,
	})
	return p, err
}

// input returns the input of a rank. It sets Input if the launcher has to feed it.
func (s *Spawner) input(p *Process, f *Files) (*os.File, error) {
	if p.Number > 0 || s.Stdin == nil {
		null, err := os.Open(os.DevNull)
		f.theirs = append(f.theirs, null)
		return null, err
	}
	if file, ok := s.Stdin.(*os.File); ok && !IsTerminal(file) {
		return file, nil
	}
	feed, read, err := f.Pipe(true)
	if err != nil {
		return nil, err
	}
	p.Input, err = NewInput(feed)
	f.ours = append(f.ours, p.Input.quit[:]...)
	return read, err
}
