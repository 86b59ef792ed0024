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
	// DrainGrace is how long the output of a rank is read on after its end while another process,
	// one that the rank has started, still holds the pipe.
	DrainGrace = time.Second
	// promptPause is how long an unfinished line waits for its end where lines have no labels.
	promptPause = 50 * time.Millisecond
)

// Label puts the label before each line. An unfinished last line gets an end if there is a label,
// so that the next label starts a line.
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

// Output reads a pipe to its end or, once the rank's process is dead, to the end of the bytes that
// this process can have written.
type Output struct {
	f     *os.File
	cut   bool // the pipe is read no further than left bytes
	left  int
	dying bool // the process is dead; own is the number of its bytes that Read has not returned
	own   int

	once    sync.Once     // closes written
	written chan struct{} // nil: unused

	mu    sync.Mutex
	end   time.Time // when to cut; zero while the process lives
	asked bool      // the next Read determines own
	pause time.Time // when the next Read gives up; zero: never
}

// NewOutput reads a pipe for which Written is not used.
func NewOutput(f *os.File) *Output { return &Output{f: f} }

// Written is Stream's.
func (o *Output) Written() <-chan struct{} { return o.written }

// Close ends the reading.
func (o *Output) Close() {
	o.finish()
	o.f.Close()
}

// finish closes written.
func (o *Output) finish() {
	if o.written != nil {
		o.once.Do(func() { close(o.written) })
	}
}

// Copy is Stream's. A line longer than LineMax is cut into several. Without wholeLines a line that
// has not been continued for promptPause is written as well: it may be a prompt. Copy closes o.
func (o *Output) Copy(write func([]byte) bool, wholeLines bool) {
	defer o.Close()
	buf := make([]byte, 0, 4<<10)
	for {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(2*cap(buf), LineMax)), buf...)
		}
		if !wholeLines && len(buf) > 0 {
			o.within(promptPause)
		}
		n, err := o.Read(buf[len(buf):cap(buf)])
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

// errPause: nothing has come in the time given to within, or all bytes of the dead process have
// been read.
var errPause = errors.New("nothing to read yet")

// Ended is called when the process is dead, also during a Read.
func (o *Output) Ended() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end, o.asked = time.Now().Add(DrainGrace), o.written != nil
	o.arm()
}

// within makes the next Read return errPause if nothing comes for d. It must not be called during a
// Read.
func (o *Output) within(d time.Duration) {
	if o.cut {
		return // the rest lies in the pipe
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pause = time.Now().Add(d)
	o.arm()
}

// arm sets the deadline to the first of its reasons.
func (o *Output) arm() {
	first := o.end
	if o.asked {
		first = time.Unix(1, 0)
	} else if first.IsZero() || !o.pause.IsZero() && o.pause.Before(first) {
		first = o.pause
	}
	_ = o.f.SetReadDeadline(first) // fails only when closed, at its end
}

// Read implements io.Reader. Its caller has written the results of the calls before.
func (o *Output) Read(p []byte) (int, error) {
	if o.dying && o.own <= 0 {
		o.finish()
	}
	for !o.cut {
		n, err := o.f.Read(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			o.resume()
			return n, o.count(n, err)
		}
		waiting, err := o.waiting()
		if err != nil {
			return 0, err
		}
		switch asked, dead := o.disarm(); {
		case dead: // all its bytes precede those that other processes write from now on
			o.cut, o.left = true, waiting
			if err := o.f.SetReadDeadline(time.Time{}); err != nil {
				return 0, err
			}
		case asked:
			o.dying, o.own = true, waiting
			if waiting == 0 {
				return 0, errPause
			}
		case waiting == 0: // else the deadline has passed in vain
			return 0, errPause
		}
	}
	if o.left == 0 {
		return 0, io.EOF
	}
	n, err := o.f.Read(p[:min(len(p), o.left)])
	o.left -= n
	return n, err
}

// count accounts for n bytes. After the last byte of a dead process its line need not wait for an
// end.
func (o *Output) count(n int, err error) error {
	if !o.dying || o.own <= 0 {
		return err
	}
	if o.own -= n; o.own <= 0 && err == nil {
		return errPause
	}
	return err
}

// resume ends the effect of within.
func (o *Output) resume() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.pause.IsZero() {
		o.pause = time.Time{}
		o.arm()
	}
}

// disarm is resume after a deadline. It reports whether to count the bytes of the dead process that
// are left in the pipe, and whether to cut.
func (o *Output) disarm() (asked, dead bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked, o.asked, o.pause = o.asked, false, time.Time{}
	o.arm()
	return asked, !o.end.IsZero() && !time.Now().Before(o.end)
}

// waiting is the number of bytes in the pipe.
func (o *Output) waiting() (n int, err error) {
	raw, err := o.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := raw.Control(func(fd uintptr) {
		n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) // FIONREAD
	})
	return n, errors.Join(cerr, err)
}
