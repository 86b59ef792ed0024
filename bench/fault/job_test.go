package fault

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// printing is a job whose ranks print a text, in pieces.
func printing(text string, err error) Start {
	return func(_ context.Context, _ int, _ func(int) bool, out io.Writer) error {
		text := text
		for len(text) > 0 {
			piece := min(len(text), 7)
			if _, err := io.WriteString(out, text[:piece]); err != nil {
				return err
			}
			text = text[piece:]
		}
		return err
	}
}

// Reports are taken out of the ranks' output, however it is cut.
func TestRun(t *testing.T) {
	var lines, rest strings.Builder
	require.NoError(t, reportStep(&lines, 1))
	lines.WriteString("hello\n")
	require.NoError(t, reportNote(&lines, []int{4, 5}))
	lines.WriteString(reportPrefix + "what is this?\n")
	require.NoError(t, reportStep(&lines, 2))
	require.NoError(t, reportResult(&lines, map[string]int{"answer": 42}))
	lines.WriteString("unfinished")
	var notes []string
	steps := 0
	j := job{ranks: 3, victims: []int{1}, start: printing(lines.String(), nil), rest: &rest}
	j.step = func() { steps++ }
	j.note = func(text json.RawMessage) error {
		notes = append(notes, string(text))
		return nil
	}
	got, err := resultOf[struct{ Answer int }](t.Context(), j)
	require.NoError(t, err)
	require.Equal(t, 42, got.Answer)
	require.Equal(t, 2, steps)
	require.Equal(t, []string{"[4,5]"}, notes)
	require.Equal(t, "hello\n"+reportPrefix+"what is this?\n", rest.String())

	j.note = func(json.RawMessage) error { return io.ErrUnexpectedEOF }
	_, err = resultOf[struct{}](t.Context(), j)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	j.note = nil
	_, err = resultOf[[]int](t.Context(), j)
	require.ErrorContains(t, err, "the job's result: ")
}

// A job that fails, and one without a report, have no result.
func TestRunFails(t *testing.T) {
	broken := errors.New("it broke")
	_, err := resultOf[int](t.Context(), job{start: silentJob(broken)})
	require.ErrorIs(t, err, broken)
	_, err = resultOf[int](t.Context(), job{start: silentJob(nil)})
	require.ErrorContains(t, err, "without a result")
}
