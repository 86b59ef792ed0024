package sim

import (
	"fmt"
	"io"
	"strconv"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// traceKind is the kind of an event.
type traceKind uint8

const (
	traceStart traceKind = iota
	traceSend
	traceRefuse
	traceArrive
	traceDrop
	traceLose
	traceDeliver
	traceGet
	traceDepart
	traceClose
	traceEnd
	traceDown
	traceDeparted
	traceBreak
)

var traceNames = [...]string{
	traceStart: "start", traceSend: "send", traceRefuse: "refuse", traceArrive: "arrive", traceDrop: "drop",
	traceLose: "lose", traceDeliver: "deliver", traceGet: "get", traceDepart: "depart",
	traceClose: "close", traceEnd: "end", traceDown: "down", traceDeparted: "departed", traceBreak: "break",
}

// traceBuffer is the number of bytes that are collected before a write.
const traceBuffer = 64 << 10

// tracer keeps the digest and, on demand, the text.
type tracer struct {
	hash uint64
	w    io.Writer
	line []byte
	err  error // the writer's first error; no line is written after it
}

// record notes an event at the present instant: the process, the other process, the class and the
// size of the frame in bytes.
//
// A line reads "1234.567 send 3 > 7 class=1 size=64": nanoseconds, event, process, other process
// ("-" for none). For "end" and "down" the size is the proc.Kind of the end.
func (s *Sim) record(k traceKind, who, whom proc.ID, class fabric.Class, size int) {
	t := &s.trace
	at := s.present()
	h := t.hash
	for _, w := range [...]uint64{uint64(at), uint64(k)<<56 | uint64(class)<<48 | uint64(uint32(size)),
		uint64(who)<<32 | uint64(whom)} {
		h = (h ^ w) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	t.hash = h
	if t.w != nil {
		t.write(at, k, who, whom, class, size)
	}
}

func (t *tracer) write(at Picos, k traceKind, who, whom proc.ID, class fabric.Class, size int) {
	b := strconv.AppendInt(t.line, int64(at/Nanosecond), 10)
	b = append(b, '.', byte('0'+at/100%10), byte('0'+at/10%10), byte('0'+at%10), ' ')
	b = append(b, traceNames[k]...)
	b = append(b, ' ')
	b = strconv.AppendUint(b, uint64(who), 10)
	b = append(b, " > "...)
	if whom == proc.None {
		b = append(b, '-')
	} else {
		b = strconv.AppendUint(b, uint64(whom), 10)
	}
	b = append(b, " class="...)
	b = strconv.AppendUint(b, uint64(class), 10)
	b = append(b, " size="...)
	b = strconv.AppendInt(b, int64(size), 10)
	t.line = append(b, '\n')
	if len(t.line) >= traceBuffer {
		t.err = t.flush()
	}
}

// flush writes the collected lines and returns the first error of the writer.
func (t *tracer) flush() error {
	if t.w != nil && t.err == nil && len(t.line) > 0 {
		if _, err := t.w.Write(t.line); err != nil {
			t.err = fmt.Errorf("sim: write trace: %w", err)
		}
	}
	t.line = t.line[:0]
	return t.err
}
