package recovery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Start starts a job of so many ranks of which each calls [Rank], gives the ranks' standard output to
// out by whole lines, and returns when all have ended, with an error if a rank failed that is not
// one of those that may. When ctx ends it ends the job.
type Start func(ctx context.Context, ranks int, may func(rank int) bool, out io.Writer) error

// Measure runs one job. Step is called after each round; what ranks print beside their reports goes to rest.
func Measure(ctx context.Context, o Options, start Start, rest io.Writer, step func()) (*Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	w := &wire{rest: rest, step: step}
	dead := victims(o.Ranks, o.Failures)
	if err := start(ctx, o.Ranks, func(rank int) bool { return slices.Contains(dead, rank) }, w); err != nil {
		return nil, err
	}
	if w.result == nil {
		return nil, errors.New("fault " + string(o.Op) + ": the job has ended without a result")
	}
	return w.result, nil
}

// report is what a rank tells the harness, in a line.
type report struct {
	Round  int     `json:"round,omitempty"`
	Result *Result `json:"result,omitempty"`
}

// mark begins the line.
const mark = "recovery: "

func (r report) write(to io.Writer) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to, "%s%s\n", mark, text)
	return err
}

// wire is the standard output of a job's ranks.
type wire struct {
	part   []byte // of a line
	rest   io.Writer
	step   func()
	result *Result
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

func (w *wire) take(line []byte) bool {
	text, ours := bytes.CutPrefix(line, []byte(mark))
	var r report
	if !ours || json.Unmarshal(text, &r) != nil {
		return false
	}
	if r.Result != nil {
		w.result = r.Result
	} else if w.step != nil {
		w.step()
	}
	return true
}
