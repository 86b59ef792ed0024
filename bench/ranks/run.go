package ranks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Start starts a job of so many ranks, gives the ranks' standard output to out by whole lines, and returns
// when all have ended, with an error if a rank failed that is not one of those that may. When ctx
// ends it ends the job.
type Start func(ctx context.Context, ranks int, may func(rank int) bool, out io.Writer) error

// Job is a job of ranks of which one speaks for all.
type Job struct {
	Ranks int
	// Dead are the ranks that are to die.
	Dead  []int
	Start Start
	// Rest gets what ranks print beside their reports.
	Rest io.Writer
}

// Run runs a job and gives the result that it has told. Step, which may be nil, is called after each [Step].
func Run[Result any](ctx context.Context, j Job, step func()) (*Result, error) {
	w := &wire{rest: j.Rest, step: step}
	if err := j.Start(ctx, j.Ranks, func(rank int) bool { return slices.Contains(j.Dead, rank) }, w); err != nil {
		return nil, err
	}
	if w.result == nil {
		return nil, errors.New("the job has ended without a result")
	}
	r := new(Result)
	if err := json.Unmarshal(w.result, r); err != nil {
		return nil, fmt.Errorf("the job's result: %w", err)
	}
	return r, nil
}

// Step tells the harness that a part is done.
func Step(out io.Writer, number int) error { return report{Step: number}.write(out) }

// Tell tells the harness the result.
func Tell(out io.Writer, result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return report{Result: text}.write(out)
}

// report is what a rank tells the harness, in a line.
type report struct {
	Step   int             `json:"step,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// mark begins the line.
const mark = "to the harness: "

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
	result []byte
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
