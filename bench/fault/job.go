package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Start starts a job of n ranks, writes their standard output to out in whole lines, and returns when
// all have ended. A rank that fails is an error unless victim reports true for it. When ctx ends,
// Start ends the job.
type Start func(ctx context.Context, n int, victim func(rank int) bool, out io.Writer) error

// job is a job whose ranks report to the harness in lines of their standard output.
type job struct {
	ranks   int
	victims []int
	start   Start
	rest    io.Writer // receives all other lines
	step    func()    // after each completed part; may be nil
	// note receives the notes of ranks (reportNote); may be nil. Its error ends the reading.
	note func(text json.RawMessage) error
}

// run runs a job and returns the result that its reporting rank has written, if any.
func (j job) run(ctx context.Context) (json.RawMessage, error) {
	w := &reports{job: &j}
	err := j.start(ctx, j.ranks, func(rank int) bool { return slices.Contains(j.victims, rank) }, w)
	return w.result, err
}

// resultOf runs a job and decodes its result.
func resultOf[R any](ctx context.Context, j job) (*R, error) {
	text, err := j.run(ctx)
	if err != nil {
		return nil, err
	}
	if text == nil {
		return nil, errors.New("the job ended without a result")
	}
	r := new(R)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("the job's result: %w", err)
	}
	return r, nil
}

// report is one line from a rank to the harness.
type report struct {
	Step   int             `json:"step,omitempty"`
	Note   json.RawMessage `json:"note,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// reportStep reports that a part of the measurement is complete.
func reportStep(out io.Writer, number int) error { return report{Step: number}.write(out) }

// reportNote reports an intermediate value. Any rank may do so, also right before it dies.
func reportNote(out io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return report{Note: text}.write(out)
}

// reportResult reports the result of the job.
func reportResult(out io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return report{Result: text}.write(out)
}

// reportPrefix starts each report.
const reportPrefix = "to the harness: "

// write writes the line in one piece.
func (r report) write(to io.Writer) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to, "%s%s\n", reportPrefix, text)
	return err
}

// reports is the standard output of a job's ranks.
type reports struct {
	*job
	part   []byte // of a line
	result json.RawMessage
}

func (w *reports) Write(p []byte) (int, error) {
	w.part = append(w.part, p...)
	for {
		end := bytes.IndexByte(w.part, '\n') + 1
		if end == 0 {
			return len(p), nil
		}
		isReport, err := w.take(w.part[:end])
		if !isReport {
			_, err = w.rest.Write(w.part[:end])
		}
		if err != nil {
			return 0, err
		}
		w.part = w.part[end:]
	}
}

// take handles a line if it is a report.
func (w *reports) take(line []byte) (isReport bool, err error) {
	text, isReport := bytes.CutPrefix(line, []byte(reportPrefix))
	var r report
	if !isReport || json.Unmarshal(text, &r) != nil {
		return false, nil
	}
	switch {
	case r.Result != nil:
		w.result = r.Result
	case r.Note != nil && w.note != nil:
		return true, w.note(r.Note)
	case r.Note == nil && w.step != nil:
		w.step()
	}
	return true, nil
}
