package fault

import (
	"bytes"
	"fmt"
	"io"
)

// line is what a rank tells the harness: that it is ready for a victim's death, or
// when it noticed.
type line struct {
	rank, pid, victim int
	at                int64 // of CLOCK_MONOTONIC, ns; 0: ready
}

const lineFormat = "fault: rank %d pid %d victim %d at %d\n"

// write puts it out in one piece.
func (l line) write(to io.Writer) error {
	_, err := fmt.Fprintf(to, lineFormat, l.rank, l.pid, l.victim, l.at)
	return err
}

// parse reads what write has written.
func parse(text []byte) (l line, ok bool) {
	_, err := fmt.Sscanf(string(text), lineFormat, &l.rank, &l.pid, &l.victim, &l.at)
	return l, err == nil
}

// wire is the standard output of a job's ranks: lines that take wants go there,
// anything else to rest.
type wire struct {
	part []byte // of a line
	take func(line []byte) bool
	rest io.Writer
}

// Write implements io.Writer.
func (w *wire) Write(p []byte) (int, error) {
	w.part = append(w.part, p...)
	for {
		end := bytes.IndexByte(w.part, '\n') + 1
		if end == 0 {
			return len(p), nil
		}
		if !w.take(w.part[:end]) {
			if _, err := w.rest.Write(w.part[:end]); err != nil {
				return 0, err
			}
		}
		w.part = w.part[end:]
	}
}

// wired is a wire to a channel.
func wired(lines chan<- line, rest io.Writer) *wire {
	return &wire{rest: rest, take: func(text []byte) bool {
		l, ok := parse(text)
		if ok {
			lines <- l
		}
		return ok
	}}
}
