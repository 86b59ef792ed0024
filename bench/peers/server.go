package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// startMax bounds the start-up of a server.
	startMax = 30 * time.Second
	// sampleMax bounds one sample: a rank that hangs is an error, not a wait.
	sampleMax = 30 * time.Second
	// stopGrace is how long a server may take to end by itself, and again after SIGTERM.
	stopGrace = 5 * time.Second
)

// Command starts the processes of a server, or some of them.
type Command struct {
	Argv []string
	// Env is added to the environment of this process.
	Env []string
	// CPU is where the process is pinned; -1: it pins itself.
	CPU int
}

// Server is two processes that take samples on command.
type Server struct {
	// Name of the implementation, for errors.
	Name string
	// Words is how the implementation describes itself.
	Words string
	// Command is the started command, for the record.
	Command string

	dir    string
	cmds   [2]*os.File
	reply  *os.File
	lines  *bufio.Reader
	procs  []*exec.Cmd
	output tail
	broken error         // of the job that failed: the ranks may be out of step
	exited chan struct{} // closed when a process has ended
	ended  sync.WaitGroup
}

// Start runs the commands that commands returns for the directory of the FIFOs and waits until rank
// 0 is ready. The caller calls [Server.Close].
func Start(ctx context.Context, name string, commands func(dir string) []Command) (*Server, error) {
	s := &Server{Name: name, exited: make(chan struct{})}
	if err := s.start(ctx, commands); err != nil {
		return nil, errors.Join(fmt.Errorf("peers: start %s: %w", name, err), s.Close())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, commands func(dir string) []Command) error {
	var err error
	if s.dir, err = Scratch("peer"); err != nil {
		return err
	}
	if s.reply, err = s.fifo("reply"); err != nil {
		return err
	}
	s.lines = bufio.NewReader(s.reply)
	for i := range s.cmds {
		if s.cmds[i], err = s.fifo(fmt.Sprintf("cmd.%d", i)); err != nil {
			return err
		}
	}
	var once sync.Once
	for _, c := range commands(s.dir) {
		p, err := s.spawn(c)
		if err != nil {
			return err
		}
		s.procs = append(s.procs, p)
		s.Command = strings.TrimSpace(s.Command + "\n" + strings.Join(append(c.Env, c.Argv...), " "))
		s.ended.Go(func() {
			_ = p.Wait() // how it ended is in its output, and unimportant after Close
			once.Do(func() { close(s.exited) })
		})
	}
	line, err := s.read(ctx, startMax)
	if err != nil {
		return err
	}
	words, ok := strings.CutPrefix(line, "ready ")
	if !ok {
		return fmt.Errorf("it said %q instead of being ready", line)
	}
	s.Words = strings.Join(strings.Fields(words), " ")
	return nil
}

// fifo makes and opens one. It is opened for both directions so that neither opening nor reading
// depends on the time at which the other side comes; the end of the other side shows at its
// process.
func (s *Server) fifo(name string) (*os.File, error) {
	path := filepath.Join(s.dir, name)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("mkfifo %s: %w", path, err)
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// spawn starts a process in a group of its own, so that a launcher's children can be ended with it.
func (s *Server) spawn(c Command) (*exec.Cmd, error) {
	p := exec.Command(c.Argv[0], c.Argv[1:]...)
	p.Env = append(os.Environ(), c.Env...)
	p.Stdout, p.Stderr = &s.output, &s.output
	p.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	p.WaitDelay = time.Second
	if c.CPU < 0 {
		return p, p.Start()
	}
	return p, startPinned(p, c.CPU)
}

// Run does one job on both ranks and returns how long its iterations took. After an error the
// server is of no use any more ([Server.Broken]): its answer may still come, and would be taken for
// the next job's.
func (s *Server) Run(ctx context.Context, j Job) (time.Duration, error) {
	if _, err := parseJob(j.String()); err != nil {
		return 0, err
	}
	if s.broken != nil {
		return 0, fmt.Errorf("peers: %s has failed before: %w", s.Name, s.broken)
	}
	d, err := s.run(ctx, j)
	s.broken = err
	return d, err
}

// Broken reports whether a job has failed.
func (s *Server) Broken() bool { return s.broken != nil }

func (s *Server) run(ctx context.Context, j Job) (time.Duration, error) {
	for _, cmd := range s.cmds {
		if _, err := fmt.Fprintln(cmd, j); err != nil {
			return 0, fmt.Errorf("peers: %s: %w", s.Name, err)
		}
	}
	line, err := s.read(ctx, sampleMax)
	if err != nil {
		return 0, fmt.Errorf("peers: %s: %s: %w", s.Name, j, err)
	}
	d, err := parseReply(line)
	if err != nil {
		return 0, fmt.Errorf("%s: %s: %w", s.Name, j, err)
	}
	return d, nil
}

// Ask returns rank 0's answer to a question, see [Answers]. An error leaves the server as
// [Server.Run]'s does.
func (s *Server) Ask(ctx context.Context, what string) (string, error) {
	if s.broken != nil {
		return "", fmt.Errorf("peers: %s has failed before: %w", s.Name, s.broken)
	}
	answer, err := s.ask(ctx, what)
	s.broken = err
	return answer, err
}

func (s *Server) ask(ctx context.Context, what string) (string, error) {
	if _, err := fmt.Fprintln(s.cmds[0], askWord+what); err != nil {
		return "", fmt.Errorf("peers: %s: %w", s.Name, err)
	}
	line, err := s.read(ctx, sampleMax)
	if err != nil {
		return "", fmt.Errorf("peers: %s: %s: %w", s.Name, what, err)
	}
	answer, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), answerWord)
	if !ok {
		return "", fmt.Errorf("peers: %s: asked for %s it said %q", s.Name, what, line)
	}
	return answer, nil
}

// read returns the next line of rank 0, or an error when the processes end, ctx ends or the time is
// over. The reason is looked up after the read has failed.
func (s *Server) read(ctx context.Context, limit time.Duration) (string, error) {
	if err := s.reply.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		case <-s.exited:
			s.awaitLastWords(ctx, done)
		}
		_ = s.reply.SetReadDeadline(time.Unix(1, 0)) // fails only when closed
	})
	line, err := s.lines.ReadString('\n')
	close(done)
	watch.Wait()
	if err == nil {
		return line, nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if line += s.unread(); strings.HasSuffix(line, "\n") {
		return line, nil
	}
	select {
	case <-s.exited:
		return "", fmt.Errorf("a process has ended; its last words: %s", s.output.String())
	default:
		return "", fmt.Errorf("no answer within %v; its last words: %s", limit, s.output.String())
	}
}

// awaitLastWords waits, after one process has ended, until all have: rank 0 may be about to report
// the failure for both.
func (s *Server) awaitLastWords(ctx context.Context, answered <-chan struct{}) {
	select {
	case <-s.gone():
	case <-answered:
	case <-ctx.Done():
	case <-time.After(stopGrace):
	}
}

// gone returns a channel that is closed when every process has ended.
func (s *Server) gone() <-chan struct{} {
	gone := make(chan struct{})
	go func() { s.ended.Wait(); close(gone) }()
	return gone
}

// unread reads the rest of the FIFO without waiting: the reader has timed out before reading it.
func (s *Server) unread() string {
	buf, n := make([]byte, tailMax), 0
	raw, err := s.reply.SyscallConn()
	if err != nil || s.reply.SetReadDeadline(time.Time{}) != nil {
		return ""
	}
	_ = raw.Read(func(fd uintptr) bool { // fails only when closed
		n, _ = unix.Read(int(fd), buf)
		return true // EAGAIN too: nothing is waited for
	})
	return string(buf[:max(n, 0)])
}

// Close ends the processes and removes the directory. The ranks end at the end of their FIFOs; a
// rank that does not is ended with SIGTERM and then SIGKILL.
func (s *Server) Close() error {
	for _, f := range append(s.cmds[:], s.reply) {
		if f != nil {
			f.Close()
		}
	}
	gone := s.gone()
	grace := stopGrace
	if s.Words == "" { // never ready: it may wait to open a FIFO without a writer
		grace = 0
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		select {
		case <-gone:
		case <-time.After(grace):
			grace = stopGrace
			for _, p := range s.procs {
				_ = unix.Kill(-p.Process.Pid, sig) // ESRCH: it has just ended
			}
		}
	}
	<-gone
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	return nil
}

// tail keeps the end of the output of processes.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// tailMax bounds it, in bytes.
const tailMax = 4 << 10

// Write implements io.Writer and never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - tailMax; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

// String returns the kept text, or "none".
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.buf) == 0 {
		return "none"
	}
	return strings.TrimSpace(string(t.buf))
}
