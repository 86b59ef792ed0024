package spawn

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// backgroundPause is the time between two looks whether the launcher has come
// to the foreground of its terminal: a shell does not tell a job that runs.
const backgroundPause = 200 * time.Millisecond

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Feed copies from r to the rank's input until either ends. If r is a terminal it ends with the rank; a read of another r may
// last longer.
func (c *Process) Feed(r io.Reader) {
	if tty, ok := r.(*os.File); ok { // other files are the rank's own
		r = ReadTerminal(tty, c.quit[0])
	}
	_, _ = io.Copy(struct{ io.Writer }{c.Stdin}, r) // a rank need not read its input to the end
	c.quit[0].Close()
	c.Stdin.Close() // last: the rank may end of it, and with it the job
}

// EndFeed is called when the rank has ended.
func (c *Process) EndFeed() {
	c.Stdin.Close()
	c.quit[1].Close()
}

// ReadTerminal returns a reader of a terminal that ends when quit can be read.
func ReadTerminal(tty, quit *os.File) io.Reader {
	return &terminal{tty: int(tty.Fd()), quit: int(quit.Fd())}
}

// terminal reads a terminal only while this process is in its foreground. From
// the background a read stops the process (SIGTTIN), and ranks that need the
// launcher would wait for it.
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
		case len(fds) == 1 || fds[1].Revents == 0 || !t.foreground(): // it may have changed while we waited
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

// foreground is true too for a terminal that does not control this process: it
// stops nobody.
func (t *terminal) foreground() bool {
	group, err := unix.IoctlGetInt(t.tty, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}
