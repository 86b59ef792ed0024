package spawn

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// LineMax bounds a line of output that is kept together, in bytes.
	LineMax = 64 << 10
	// DrainGrace is how long the output of a rank is read on after its end while
	// another process, one that the rank has started, still holds the pipe.
	DrainGrace = time.Second
	// promptPause is how long a line that has been begun waits for its end where
	// lines have no labels.
	promptPause = 50 * time.Millisecond
)

// CopyLines writes what comes from r, whole lines at a time. A line longer than
// LineMax is cut into several. Where lines need not be whole, because they get
// no labels, what a rank has begun and not continued for promptPause is written
// as well: it may be a question. It stops reading when write reports false: the
// output is given up.
func CopyLines(write func([]byte) bool, r *Output, wholeLines bool) {
	buf := make([]byte, 0, 4<<10)
	for {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(2*cap(buf), LineMax)), buf...)
		}
		if !wholeLines && len(buf) > 0 {
			r.within(promptPause)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		whole := bytes.LastIndexByte(buf, '\n') + 1
		if whole == 0 && len(buf) == LineMax || err != nil {
			whole = len(buf)
		}
		if !write(buf[:whole]) || err != nil && !errors.Is(err, errPause) {
			return
		}
		buf = buf[:copy(buf, buf[whole:])]
	}
}

// Label puts the label before each line. A last line without an end gets one
// if there is a label, so that the next label begins a line.
func Label(lines []byte, label string) []byte {
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

// Output reads a pipe to its end or, once the process that mattered is dead, to
// the end of what that process can have written.
type Output struct {
	f     *os.File
	cut   bool // the pipe is read no further than left bytes
	left  int
	dying bool // the process is dead, and of what it wrote own bytes have not been read
	own   int
	once  sync.Once     // closes heard
	heard chan struct{} // closed when all that the process wrote has been passed on; nil: nobody asks

	mu    sync.Mutex
	end   time.Time // when to cut; zero while the process lives
	asked bool      // the next Read looks how much the dead has left behind
	pause time.Time // when the next Read gives up; zero: never
}

// errPause: nothing has come in the time given to within, or the process that
// mattered has nothing more to say.
var errPause = errors.New("nothing to read yet")

// ProcessEnded says that the process is dead. It may be called beside Read.
func (t *Output) ProcessEnded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end, t.asked = time.Now().Add(DrainGrace), t.heard != nil
	t.arm()
}

// NewOutput reads a pipe of which nobody asks what the process wrote.
func NewOutput(f *os.File) *Output { return &Output{f: f} }

// Drained is closed when all that the process wrote has been passed on.
func (t *Output) Drained() <-chan struct{} { return t.heard }

// Close ends the reading.
func (t *Output) Close() {
	t.hush()
	t.f.Close()
}

// hush says that whoever read has passed on all that the process wrote, or will read no more.
func (t *Output) hush() {
	if t.heard != nil {
		t.once.Do(func() { close(t.heard) })
	}
}

// within makes the next Read return errPause if nothing comes for so long. It
// may not be called beside Read.
func (t *Output) within(d time.Duration) {
	if t.cut {
		return // what is left lies in the pipe
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pause = time.Now().Add(d)
	t.arm()
}

// arm sets the deadline to whichever comes first.
func (t *Output) arm() {
	first := t.end
	if t.asked {
		first = time.Unix(1, 0)
	} else if first.IsZero() || !t.pause.IsZero() && t.pause.Before(first) {
		first = t.pause
	}
	_ = t.f.SetReadDeadline(first) // fails only when closed, at its end
}

// Read returns what has come, as io.Reader's does. Who calls it has passed on what it
// got before.
func (t *Output) Read(p []byte) (int, error) {
	if t.dying && t.own <= 0 {
		t.hush()
	}
	for !t.cut {
		n, err := t.f.Read(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.resume()
			return n, t.count(n, err)
		}
		waits, err := t.waiting()
		if err != nil {
			return 0, err
		}
		switch asked, dead := t.disarm(); {
		case dead: // whatever it wrote comes before all that others write from now on
			t.cut, t.left = true, waits
			if err := t.f.SetReadDeadline(time.Time{}); err != nil {
				return 0, err
			}
		case asked:
			t.dying, t.own = true, waits
			if waits == 0 {
				return 0, errPause
			}
		case waits == 0: // else the deadline was ours to miss
			return 0, errPause
		}
	}
	if t.left == 0 {
		return 0, io.EOF
	}
	n, err := t.f.Read(p[:min(len(p), t.left)])
	t.left -= n
	return n, err
}

// count takes note of n bytes that were read. After the last that the dead has written its line
// need not wait for an end.
func (t *Output) count(n int, err error) error {
	if !t.dying || t.own <= 0 {
		return err
	}
	if t.own -= n; t.own <= 0 && err == nil {
		return errPause
	}
	return err
}

// resume ends what within began.
func (t *Output) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.pause.IsZero() {
		t.pause = time.Time{}
		t.arm()
	}
}

// disarm is resume after a deadline. It reports whether it is time to look what the dead has
// left behind, and whether to cut.
func (t *Output) disarm() (asked, dead bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	asked, t.asked, t.pause = t.asked, false, time.Time{}
	t.arm()
	return asked, !t.end.IsZero() && !time.Now().Before(t.end)
}

// waiting is the number of bytes that lie in the pipe.
func (t *Output) waiting() (n int, err error) {
	raw, err := t.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := raw.Control(func(fd uintptr) {
		n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) // FIONREAD
	})
	return n, errors.Join(cerr, err)
}
