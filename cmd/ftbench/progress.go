package main

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/banyan-hpc/banyan/bench/progressbar"
)

// statusLine is a line that is written over again and again. It shows on a
// terminal, and nothing elsewhere.
type statusLine struct{ w io.Writer }

func newStatusLine(w io.Writer) statusLine {
	if !progressbar.Terminal(w) {
		return statusLine{io.Discard}
	}
	return statusLine{w}
}

// print puts text in the place of what is there.
func (s statusLine) print(text string) { fmt.Fprint(s.w, "\r\033[K"+text) }

func (s statusLine) clear() { s.print("") }

// quiet is how long a command may run without a word.
const quiet = 2 * time.Second

// meter passes output on and keeps a status line below it that says how many of
// the lines have come and when the last is due. It sits in the process that the
// user has started: the ranks' own standard error is a pipe.
type meter struct {
	out   io.Writer
	line  statusLine
	what  string // of which there are total, one a line
	total int
	mark  []byte // what each of these lines holds

	done    int
	started time.Time
	now     func() time.Time
}

func newMeter(to *call, what string, total int, mark string) *meter {
	return &meter{
		out: to.out, line: newStatusLine(to.err), what: what, total: total, mark: []byte(mark),
		started: time.Now(), now: time.Now,
	}
}

// Write implements io.Writer.
func (m *meter) Write(b []byte) (int, error) {
	m.done += bytes.Count(b, m.mark)
	m.line.clear()
	n, err := m.out.Write(b)
	if spent := m.now().Sub(m.started); spent > quiet && m.done > 0 && m.done < m.total {
		left := spent / time.Duration(m.done) * time.Duration(m.total-m.done)
		m.line.print(fmt.Sprintf("%d of %d %s, about %v left", m.done, m.total, m.what, left.Round(time.Second)))
	}
	return n, err
}
