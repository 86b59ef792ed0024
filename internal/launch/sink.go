package launch

import (
	"io"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
)

// sink owns one destination of a job's output. Its goroutine alone writes there, so that only it
// waits for a slow reader. A failed write ends the writing but not the reading: no rank notices.
type sink struct {
	w       io.Writer
	name    string          // for people
	failed  func(outputEnd) // called once, by run
	gone    <-chan struct{} // closed when the output is given up
	lines   chan []byte     // from the ranks; each sender waits for written
	written chan struct{}
	writes  atomic.Uint64 // how often written has been received from
	wake    chan struct{} // there are notes
	stop    chan struct{} // closed after the last write
	done    chan struct{} // closed when all is written, or given up
	dead    bool          // run's: a write has failed

	mu    sync.Mutex
	notes [][]byte // the launcher's own lines that wait: two for a rank at most
}

// outputEnd is the error of a failed destination.
type outputEnd struct {
	name string
	err  error
}

// newSinks starts the goroutines of the two destinations of a job. They are one sink if they are
// one writer or one file, so that lines do not mix.
func newSinks(stdout, stderr io.Writer, gone <-chan struct{}, failed func(outputEnd)) (out, err *sink) {
	out = newSink(stdout, "standard output", gone, failed)
	if same(stdout, stderr) {
		return out, out
	}
	return out, newSink(stderr, "standard error", gone, failed)
}

func newSink(w io.Writer, name string, gone <-chan struct{}, failed func(outputEnd)) *sink {
	if w == nil {
		w = io.Discard
	}
	s := &sink{
		w: w, name: name, failed: failed, gone: gone,
		lines: make(chan []byte), written: make(chan struct{}), wake: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	go s.run()
	return s
}

// same reports whether two writers lead to one place, as 2>&1 makes them.
func same(a, b io.Writer) bool {
	if f, ok := a.(*os.File); ok {
		if g, ok := b.(*os.File); ok {
			return sameFile(f, g)
		}
	}
	return a != nil && reflect.ValueOf(a).Comparable() && a == b // == panics for other values
}

func sameFile(f, g *os.File) bool {
	a, aerr := f.Stat()
	b, berr := g.Stat()
	return aerr == nil && berr == nil && os.SameFile(a, b)
}

func (s *sink) run() {
	defer close(s.done)
	for {
		select {
		case p := <-s.lines:
			s.put(p)
			select {
			case s.written <- struct{}{}:
			case <-s.gone:
				return
			}
		case <-s.wake:
			s.putNotes()
		case <-s.stop:
			s.putNotes()
			return
		case <-s.gone:
			return
		}
	}
}

func (s *sink) put(p []byte) {
	if s.dead || len(p) == 0 {
		return
	}
	if _, err := s.w.Write(p); err != nil {
		s.dead = true
		s.failed(outputEnd{s.name, err})
	}
}

func (s *sink) putNotes() {
	s.mu.Lock()
	notes := s.notes
	s.notes = nil
	s.mu.Unlock()
	for _, p := range notes {
		select {
		case <-s.gone:
			return
		default:
			s.put(p)
		}
	}
}

// write returns true when p has been written in one piece, or false when the output has been given
// up.
func (s *sink) write(p []byte) bool {
	if len(p) == 0 {
		return true
	}
	select {
	case s.lines <- p:
	case <-s.gone:
		return false
	}
	select {
	case <-s.written:
		s.writes.Add(1)
		return true
	case <-s.gone:
		return false
	}
}

// note queues p. It never waits.
func (s *sink) note(p []byte) {
	s.mu.Lock()
	s.notes = append(s.notes, p)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // already awake
	}
}

// close returns when everything has been written, or the output given up. No write or note may
// follow.
func (s *sink) close() {
	close(s.stop)
	select {
	case <-s.done:
	case <-s.gone: // the goroutine ends with its current write
	}
}
