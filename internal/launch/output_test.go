package launch

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestLabels(t *testing.T) {
	s := script(2, `printf 'one\ntwo\nrest'; printf 'e\n' >&2`)
	s.TagOutput = true
	_, out, err := run(t, s)
	for r := range 2 {
		var own []string
		for line := range strings.Lines(out) {
			if text, ok := strings.CutPrefix(line, fmt.Sprintf("[%d] ", r)); ok {
				own = append(own, text)
			}
		}
		require.Equal(t, []string{"one\n", "two\n", "rest\n"}, own)
		require.Contains(t, err, fmt.Sprintf("[%d] e\n", r))
	}
}

func TestNoOutputIsLost(t *testing.T) {
	const lines = 50000
	_, out, _ := run(t, script(2, fmt.Sprintf("seq %d; printf %%s tail", lines)))
	require.Equal(t, 2, strings.Count(out, "tail"))
	require.Equal(t, 2*lines, strings.Count(out, "\n"))
	require.Equal(t, 2, strings.Count(out, fmt.Sprintf("%d\n", lines)))
}

func TestSlowReaderLosesNothing(t *testing.T) {
	t.Parallel()
	// The pipe is held by a grandchild and full when the rank ends.
	var out buffer
	s := script(1, "sleep 1000 & echo $!; head -c 60000 /dev/zero | tr '\\0' x; echo end")
	s.Stdout = &out
	res, err := Run(context.Background(), s)
	require.NoError(t, err)
	require.Zero(t, res.Code)
	text := out.String()
	pid, err := strconv.Atoi(text[:strings.IndexByte(text, '\n')])
	require.NoError(t, err)
	require.NoError(t, unix.Kill(pid, unix.SIGKILL), "the rank's child was to live on")
	require.Equal(t, 60000, strings.Count(text, "x"))
	require.True(t, strings.HasSuffix(text, "end\n"))
}

// A question shows before it is answered.
func TestPrompt(t *testing.T) {
	s := script(1, "echo one; printf Name:; read x; echo hello $x")
	in, answer := io.Pipe()
	var out buffer
	s.Stdin = in
	s.Stdout = writerFunc(func(p []byte) {
		_, _ = out.Write(p)
		if strings.HasSuffix(out.String(), "Name:") {
			go func() {
				_, _ = io.WriteString(answer, "Ada\n")
				answer.Close()
			}()
		}
	})
	_, err := Run(context.Background(), s)
	require.NoError(t, err)
	require.Equal(t, "one\nName:hello Ada\n", out.String())
}

// A label begins a line, so lines with labels are whole, however slowly they come.
func TestLabelledLinesAreWhole(t *testing.T) {
	s := script(1, "printf 'slow '; sleep 0.2; echo line")
	s.TagOutput = true
	_, out, _ := run(t, s)
	require.Equal(t, "[0] slow line\n", out)
}

// The launcher's report of the end of a rank follows all output of the rank, also if a child of the
// rank still holds its output, and if its last line has no end.
func TestOutputPrecedesTheReport(t *testing.T) {
	t.Parallel()
	const n = 8
	spec := script(n, "seq 12000 >&2; sleep 1000 & echo pid $! >&2; printf %s 'the last words' >&2; exit 3")
	for name, s := range map[string]Spec{"here": spec, "on hosts": spread(t, spec)} {
		t.Run(name, func(t *testing.T) {
			s.OnFailure, s.TagOutput = spawn.Continue, true
			_, _, err := run(t, s)
			for r := range n {
				own, after, found := strings.Cut(err, fmt.Sprintf("rank %d", r))
				require.True(t, found)
				pid := own[strings.Index(own, fmt.Sprintf("[%d] pid ", r))+len("[0] pid "):]
				number, perr := strconv.Atoi(pid[:strings.IndexByte(pid, '\n')])
				require.NoError(t, perr)
				require.NoError(t, unix.Kill(number, unix.SIGKILL), "what the rank had started was to live on")
				require.Contains(t, own, fmt.Sprintf("[%d] 12000\n", r))
				require.Contains(t, own, fmt.Sprintf("[%d] the last words\n", r), "first came: rank %d%.60s", r, after)
			}
		})
	}
}
