package launch

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lineMax bounds a line of output that is kept together, in bytes.
	lineMax = 64 << 10
	// drainGrace is how long the output of a rank is read on after its end while
	// another process, one that the rank has started, still holds the pipe.
	drainGrace = time.Second
)

// copyLines writes what comes from r to the sink, whole lines at a time, each
// with the label before it. A line longer than lineMax is cut into several. A
// last line without an end gets one if there is a label, so that the next
// label begins a line. It stops reading when the output is given up.
func copyLines(to *sink, r io.Reader, label string) {
	buf := make([]byte, 0, 4<<10)
	for {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(2*cap(buf), lineMax)), buf...)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		whole := bytes.LastIndexByte(buf, '\n') + 1
		if whole == 0 && len(buf) == lineMax || err != nil {
			whole = len(buf)
		}
		if !to.write(labelled(buf[:whole], label)) || err != nil {
			return
		}
		buf = buf[:copy(buf, buf[whole:])]
	}
}

func labelled(lines []byte, label string) []byte {
	if label == "" || len(lines) == 0 {
		return lines
	}
	var out []byte
	for line := range bytes.Lines(lines) {
		out = append(out, label...)
		out = append(out, line...)
	}
	if out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	return out
}

// tail reads a pipe to its end or, once the process that mattered is dead, to
// the end of what that process can have written.
type tail struct {
	f    *os.File
	cut  bool // the pipe is read no further than left bytes
	left int
}

// ended says that the process is dead. It may be called beside Read.
func (t *tail) ended() {
	_ = t.f.SetReadDeadline(time.Now().Add(drainGrace)) // fails only when closed, at its end
}

// Read is io.Reader's.
func (t *tail) Read(p []byte) (int, error) {
	if !t.cut {
		n, err := t.f.Read(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if err := t.cutNow(); err != nil {
			return 0, err
		}
	}
	if t.left == 0 {
		return 0, io.EOF
	}
	n, err := t.f.Read(p[:min(len(p), t.left)])
	t.left -= n
	return n, err
}

// cutNow limits the reading to what lies in the pipe: whatever the dead
// process wrote comes before all that others write from now on.
func (t *tail) cutNow() error {
	t.cut = true
	raw, err := t.f.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) {
		t.left, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) // FIONREAD
	})
	if err = errors.Join(cerr, err); err != nil {
		return err
	}
	return t.f.SetReadDeadline(time.Time{})
}
