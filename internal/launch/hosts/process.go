package hosts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"golang.org/x/sys/unix"
)

// hearMax bounds what is kept of what a remote shell prints before its proxy
// is ready.
const hearMax = 4 << 10

// hearing is what a remote shell prints. It is kept while it may explain why
// the host does not answer, and shown when the host is ready.
type hearing struct {
	mu   sync.Mutex
	text []byte
	to   func([]byte) bool // nil: keep
}

func (s *hearing) hear(p []byte) bool {
	s.mu.Lock()
	to := s.to
	if to == nil {
		s.text = append(s.text, p...)
		s.text = s.text[max(0, len(s.text)-hearMax):]
	}
	s.mu.Unlock()
	return to == nil || to(p)
}

// pass returns what was heard and has passed on all that comes.
func (s *hearing) pass(to func([]byte) bool) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.text
	s.text, s.to = nil, to
	return text
}

// words is what was heard, as one line.
func (s *hearing) words() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.ToValidUTF8(string(s.text), "?")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r == '\n', r == '\r', unicode.IsPrint(r):
			return r
		}
		return '?' // a terminal would obey it
	}, text)
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// start starts the remote shell.
func (h *Remote) start() (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.given != "" {
		return errors.New(h.given)
	}
	argv := h.fleet.Proxy
	cmd := &exec.Cmd{Path: argv[0], Args: slices.Clone(argv)}
	var ours, theirs []*os.File
	defer func() {
		spawn.CloseAll(theirs)
		if err != nil {
			spawn.CloseAll(ours)
		}
	}()
	var ends [3][2]*os.File // reading, writing
	for i := range ends {
		if ends[i][0], ends[i][1], err = os.Pipe(); err != nil {
			return spawn.Explain(err)
		}
		mine := 1 - min(i, 1)
		ours, theirs = append(ours, ends[i][mine]), append(theirs, ends[i][1-mine])
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals of the terminal are the launcher's to forward
	if err = h.fleet.Shell(h.Name, cmd); err != nil {
		return spawn.Explain(err)
	}
	h.command = strings.Join(cmd.Args, " ")
	h.proc, h.in, h.out = cmd.Process, ours[0], spawn.NewOutput(ours[1])
	h.link.r, h.link.w = bufio.NewReaderSize(h.out, chunkMax), h.in
	errs := spawn.NewOutput(ours[2])
	h.fleet.Work.Go(func() { h.wait(cmd, errs) })
	h.fleet.Work.Go(func() {
		spawn.CopyLines(h.said.hear, errs, true)
		errs.Close()
		close(h.heard)
	})
	h.fleet.Work.Go(func() { h.link.write(); h.in.Close() })
	return nil
}

// wait reaps the remote shell. Processes that it has left behind, such as the
// master of shared connections that ssh starts, may hold its pipes.
func (h *Remote) wait(cmd *exec.Cmd, errs *spawn.Output) {
	var info unix.Siginfo
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	h.mu.Lock()
	h.reaped = true
	h.mu.Unlock()
	err := cmd.Wait()
	h.status = "ended"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		h.status = spawn.End{Code: exit.ExitCode(), Signal: signalOf(exit.ProcessState)}.String()
	}
	h.out.ProcessEnded()
	errs.ProcessEnded()
	close(h.exited)
}

func signalOf(state *os.ProcessState) unix.Signal {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return ws.Signal()
	}
	return 0
}

// explain says why the link to a proxy has ended: the remote shell often knows,
// by its exit code and by what it has printed.
func (h *Remote) explain(err error) error {
	var refused refusalError
	if errors.As(err, &refused) {
		return err
	}
	ended := errors.Is(err, io.ErrUnexpectedEOF)
	grace := time.NewTimer(spawn.DrainGrace)
	defer grace.Stop()
	select {
	case <-h.exited:
	case <-grace.C:
		if ended {
			h.Kill("the remote shell has closed its output and not ended")
		} else {
			h.Kill(err.Error())
		}
		<-h.exited
	}
	<-h.heard
	h.mu.Lock()
	given := h.given
	h.mu.Unlock()
	var text strings.Builder
	switch {
	case given != "":
		text.WriteString(given)
	case ended:
		fmt.Fprintf(&text, "the remote shell %s", h.status)
	default:
		fmt.Fprintf(&text, "%v; the remote shell %s", err, h.status)
	}
	if words := h.said.words(); words != "" {
		fmt.Fprintf(&text, "; it printed: %s", words)
	}
	fmt.Fprintf(&text, " (%s)", h.command)
	switch {
	case given != "":
	case strings.HasSuffix(h.status, "code 127"), strings.HasSuffix(h.status, "code 126"):
		fmt.Fprintf(&text, ": is %s on that host, for this user to execute? Copy ftbench there, or say with --remote-ftbench where it is", h.fleet.Proxy[0])
	case h.status == "ended": // with code 0, which neither ssh nor ftbench would
		fmt.Fprintf(&text, ": has it run %s there, and is that ftbench? It waits for the launcher and does not end by itself: say with --remote-ftbench where ftbench is on that host, and with --rsh what runs a command there",
			h.fleet.Proxy[0])
	}
	return errors.New(text.String())
}

// limit begins the time in which the proxy has to answer.
func (h *Remote) limit(fault string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.settled {
		return
	}
	d := h.fleet.Timeout
	h.late = time.AfterFunc(d, func() { h.Kill(fmt.Sprintf("%s within %v (--init-timeout, %s)", fault, d, pmi.InitTimeoutEnv)) })
}

// inTime ends it.
func (h *Remote) inTime() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late.Stop()
}

// killAfter kills the remote shell if it lives so long.
func (h *Remote) killAfter(d time.Duration, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.settled || h.lastly != nil {
		return
	}
	h.lastly = time.AfterFunc(d, func() { h.Kill(why) })
}

// Kill ends the remote shell, or keeps it from starting.
func (h *Remote) Kill(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.given == "" {
		h.given = why
	}
	if h.proc != nil && !h.reaped {
		_ = unix.Kill(-h.proc.Pid, unix.SIGKILL) // ESRCH: it has ended
	}
}
