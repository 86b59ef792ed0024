package spawn

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// backgroundPause is the time between two checks whether the launcher has come to the foreground of
// its terminal: a shell does not signal that to a running job.
const backgroundPause = 200 * time.Millisecond

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Input is the standard input of a rank that does not read the launcher's own.
type Input struct {
	to   io.WriteCloser
	quit [2]*os.File // a pipe: closing its second end ends Feed from a terminal
}

// NewInput returns an Input that owns to.
func NewInput(to io.WriteCloser) (*Input, error) {
	in := &Input{to: to}
	var err error
	in.quit[0], in.quit[1], err = os.Pipe()
	return in, err
}

// Feed copies until either end closes. From a terminal, which is an *os.File, it returns when the
// rank has ended; a read of another reader may last longer.
func (in *Input) Feed(from io.Reader) {
	if tty, ok := from.(*os.File); ok {
		from = &terminal{tty: int(tty.Fd()), quit: int(in.quit[0].Fd())}
	}
	_, _ = io.Copy(struct{ io.Writer }{in.to}, from) // a rank need not read its input to the end
	in.quit[0].Close()
	in.to.Close() // last: the rank may end of it, and with it the job
}

// End is called when the rank has ended.
func (in *Input) End() {
	in.to.Close()
	in.quit[1].Close()
}

// terminal reads a terminal only while this process is in its foreground. From the background a
// read stops the process (SIGTTIN), and ranks that need the launcher would wait for it.
type terminal struct{ tty, quit int }

// Read is io.Reader's.
func (t *terminal) Read(p []byte) (int, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(t.quit), Events: unix.POLLIN}, {Fd: int32(t.tty), Events: unix.POLLIN}}
		timeout := -1
		if !t.foreground() {
			fds, timeout = fds[:1], int(backgroundPause.Milliseconds())
		}
		_, err := unix.Poll(fds, timeout)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return 0, err
		case err != nil:
			continue
		case fds[0].Revents != 0:
			return 0, io.EOF
		case len(fds) == 1 || fds[1].Revents == 0 || !t.foreground(): // it may have changed meanwhile
			continue
		}
		n, err := unix.Read(t.tty, p)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// foreground is also true for a terminal that does not control this process: it stops no process.
func (t *terminal) foreground() bool {
	group, err := unix.IoctlGetInt(t.tty, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}
