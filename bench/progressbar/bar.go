package progressbar

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// quiet is how long nothing is drawn, interval what lies between drawings.
	quiet    = 2 * time.Second
	interval = time.Second
	// cells is the length of the bar, in characters.
	cells = 24
	// erase returns to the begin of the line and clears it.
	erase = "\r\033[K"
)

// Bar is a bar of so many steps. Its zero value is one that is never drawn.
type Bar struct {
	mu     sync.Mutex
	term   io.Writer // nil: never drawn
	label  string
	total  int // 0: unknown
	done   int
	note   string
	now    func() time.Time
	start  time.Time
	shown  bool // there is something to erase
	midway bool // a line has been begun that is not the bar's
	once   sync.Once
	stop   chan struct{} // closed by Stop
	ended  chan struct{}
}

// Start begins a bar of total steps, 0 if their number is unknown, on w if that
// is a terminal. [Bar.Stop] ends it.
func Start(w io.Writer, label string, total int) *Bar {
	if !Terminal(w) {
		return &Bar{}
	}
	return begin(w, label, total, quiet, interval, time.Now)
}

// begin is Start; now is the clock that the bar shows.
func begin(w io.Writer, label string, total int, quiet, interval time.Duration, now func() time.Time) *Bar {
	b := &Bar{
		term: w, label: label, total: total, now: now, start: now(),
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
	go b.run(quiet, interval)
	return b
}

// Terminal reports whether w is a terminal that can erase a line.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// run draws until the bar is stopped.
func (b *Bar) run(quiet, interval time.Duration) {
	defer close(b.ended)
	next := time.NewTimer(quiet)
	defer next.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-next.C:
			if b.mu.TryLock() { // else somebody writes, and who writes draws
				b.draw()
				b.mu.Unlock()
			}
			next.Reset(interval)
		}
	}
}

// Step counts n steps as done.
func (b *Bar) Step(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += n
}

// Note replaces what stands behind the bar.
func (b *Bar) Note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note = text
}

// Stop erases the bar for good. Calling it again does nothing. It does not wait
// for a write that hangs because nobody reads: beside one there is no bar.
func (b *Bar) Stop() {
	if b.term == nil {
		return
	}
	b.once.Do(func() { close(b.stop) })
	<-b.ended
	b.last()
}

// last erases the bar if it has been stopped. Where a write is under way, that
// does it.
func (b *Bar) last() {
	select {
	case <-b.stop:
		if b.mu.TryLock() {
			b.erase()
			b.mu.Unlock()
		}
	default:
	}
}

// draw shows the bar as it is now. A terminal that cannot be written to is no
// reason to end a measurement: errors are dropped.
func (b *Bar) draw() {
	if b.midway {
		return
	}
	fmt.Fprint(b.term, erase, b.text())
	b.shown = true
}

func (b *Bar) erase() {
	if b.shown {
		fmt.Fprint(b.term, erase)
		b.shown = false
	}
}

// text is the bar: "osu bw [######......] 12/23, 8 s".
func (b *Bar) text() string {
	seconds := int(b.now().Sub(b.start).Seconds())
	var s string
	if b.total > 0 {
		full := cells * min(b.done, b.total) / b.total
		s = fmt.Sprintf("%s [%s%s] %d/%d, %d s", b.label, strings.Repeat("#", full), strings.Repeat(".", cells-full), b.done, b.total, seconds)
	} else {
		s = fmt.Sprintf("%s %d done, %d s", b.label, b.done, seconds)
	}
	if b.note != "" {
		s += ", " + b.note
	}
	return s
}

// Over returns a writer to w beside which the bar can stand: it is erased before
// something is written and drawn again after. It is w itself where nobody
// watches.
func (b *Bar) Over(w io.Writer) io.Writer { return b.Lines(w, nil) }

// Lines is [Bar.Over]; besides, each written line that counts is a step. A line
// must be written whole to be counted; counts gets it with its end.
func (b *Bar) Lines(w io.Writer, counts func(line []byte) bool) io.Writer {
	if b.term == nil {
		return w
	}
	return &lines{b, w, counts}
}

type lines struct {
	b      *Bar
	w      io.Writer
	counts func(line []byte) bool
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	b := l.b
	defer b.last()
	b.mu.Lock()
	defer b.mu.Unlock()
	again := b.shown
	b.erase()
	if l.counts != nil {
		for line := range bytes.Lines(p) {
			if l.counts(line) {
				b.done++
			}
		}
	}
	n, err := l.w.Write(p)
	b.midway = len(p) > 0 && p[len(p)-1] != '\n'
	if again {
		b.draw()
	}
	return n, err
}
