package progressbar

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/bench/table"
)

const (
	// quiet is the time before the first drawing, interval the time between drawings.
	quiet    = 2 * time.Second
	interval = time.Second
	// cells is the length of the bar in characters.
	cells = 24
	// erase returns to the start of the line and clears it.
	erase = "\r\033[K"
)

// Bar is a progress bar. Its zero value is never drawn.
type Bar struct {
	mu     sync.Mutex
	term   io.Writer // nil: never drawn
	label  string
	words  string                   // label and note, with which the bar's text begins
	bar    *progressbar.ProgressBar // renders text; this package writes it
	shown  bool                     // there is something to erase
	midway bool                     // the line of the terminal holds an unfinished line of output
	once   sync.Once
	stop   chan struct{} // closed by Stop
	ended  chan struct{}
}

// Start starts a bar of total steps on w if w is a terminal. A total of 0 is an unknown number.
// [Bar.Stop] ends it.
func Start(w io.Writer, label string, total int) *Bar {
	if !Terminal(w) {
		return &Bar{}
	}
	return start(w, label, total, quiet, interval)
}

func start(w io.Writer, label string, total int, quiet, interval time.Duration) *Bar {
	b := &Bar{term: w, label: label, words: label, stop: make(chan struct{}), ended: make(chan struct{})}
	total = cmp.Or(total, -1)
	b.bar = progressbar.NewOptions(total,
		progressbar.OptionSetWriter(io.Discard), progressbar.OptionSetDescription(label),
		progressbar.OptionSetWidth(cells), progressbar.OptionShowCount(),
		progressbar.OptionSetSpinnerChangeInterval(0),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "#", SaucerPadding: ".", BarStart: "[", BarEnd: "]"}))
	b.bar.StartWithoutRender()
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
			if b.mu.TryLock() { // otherwise a write is under way, and it draws
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
	b.step(n)
}

func (b *Bar) step(n int) {
	if b.bar != nil {
		_ = b.bar.Add(n) // fails beyond the total, where the bar stays full
	}
}

// Note replaces the text beside the label.
func (b *Bar) Note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar != nil {
		b.words = b.label + ", " + text
		progressbar.OptionSetDescription(b.words)(b.bar)
	}
}

// Stop erases the bar for good; further calls do nothing. It does not wait for a write that blocks
// because its reader does not read: such a write has erased the bar already.
func (b *Bar) Stop() {
	if b.term == nil {
		return
	}
	b.once.Do(func() { close(b.stop) })
	<-b.ended
	b.eraseStopped()
}

// eraseStopped erases a stopped bar. A write that is under way does the same when it ends.
func (b *Bar) eraseStopped() {
	select {
	case <-b.stop:
		if b.mu.TryLock() {
			b.erase()
			b.mu.Unlock()
		}
	default:
	}
}

// draw shows the bar as it is now. Errors of the terminal are dropped: they must not end a
// measurement.
func (b *Bar) draw() {
	if b.midway {
		return
	}
	_ = b.bar.RenderBlank() // it writes to io.Discard
	fmt.Fprint(b.term, erase, b.fit(strings.Trim(b.bar.String(), "\r "), table.Width(b.term)-1))
	b.shown = true
}

// fit shortens the text of the bar to a number of columns, since a longer line could not be erased: its
// words first, then its end.
func (b *Bar) fit(text string, columns int) string {
	line := []rune(text)
	over := len(line) - columns
	if over <= 0 {
		return text
	}
	if at := strings.Index(text, b.words); at >= 0 {
		from, words := len([]rune(text[:at])), len([]rune(b.words))
		if keep := words - over - 1; keep > 0 {
			return string(line[:from+keep]) + "…" + string(line[from+words:])
		}
	}
	return string(line[:columns])
}

func (b *Bar) erase() {
	if b.shown {
		fmt.Fprint(b.term, erase)
		b.shown = false
	}
}

// Over returns a writer to w that erases the bar before a write and draws it again after it.
// Without a terminal it is w itself.
func (b *Bar) Over(w io.Writer) io.Writer { return b.Lines(w, nil) }

// Lines is [Bar.Over], and each line for which counts returns true is a step. counts gets a line
// with its end; lines must be written whole.
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

// Columns is the width of the terminal that it writes to.
func (l *lines) Columns() int { return table.Width(l.w) }

func (l *lines) Write(p []byte) (int, error) {
	b := l.b
	defer b.eraseStopped()
	b.mu.Lock()
	defer b.mu.Unlock()
	again := b.shown
	b.erase()
	if l.counts != nil {
		for line := range bytes.Lines(p) {
			if l.counts(line) {
				b.step(1)
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
