package ranks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// said is a job whose ranks say that, in pieces.
func said(text string, err error) Start {
	return func(_ context.Context, n int, may func(int) bool, out io.Writer) error {
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

// What ranks report is taken out of what they print, however it is cut.
func TestRun(t *testing.T) {
	var lines, rest strings.Builder
	require.NoError(t, Step(&lines, 1))
	lines.WriteString("hello\n")
	require.NoError(t, Note(&lines, []int{4, 5}))
	lines.WriteString(mark + "what is this?\n")
	require.NoError(t, Step(&lines, 2))
	require.NoError(t, Tell(&lines, map[string]int{"answer": 42}))
	lines.WriteString("unfinished")
	var notes []string
	steps := 0
	j := Job{Ranks: 3, Dead: []int{1}, Start: said(lines.String(), nil), Rest: &rest, Note: func(text json.RawMessage) error {
		notes = append(notes, string(text))
		return nil
	}}
	got, err := Run[struct{ Answer int }](t.Context(), j, func() { steps++ })
	require.NoError(t, err)
	require.Equal(t, 42, got.Answer)
	require.Equal(t, 2, steps)
	require.Equal(t, []string{"[4,5]"}, notes)
	require.Equal(t, "hello\n"+mark+"what is this?\n", rest.String())

	j.Note = func(json.RawMessage) error { return io.ErrUnexpectedEOF }
	_, err = Run[struct{}](t.Context(), j, nil)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	j.Note = nil
	_, err = Run[[]int](t.Context(), j, nil)
	require.ErrorContains(t, err, "the job's result: ")
}

// A job that fails, and one that says nothing, have no result.
func TestRunFails(t *testing.T) {
	broken := errors.New("it broke")
	_, err := Run[int](t.Context(), Job{Start: said("", broken)}, nil)
	require.ErrorIs(t, err, broken)
	_, err = Run[int](t.Context(), Job{Start: said("", nil)}, nil)
	require.ErrorContains(t, err, "without a result")
}
