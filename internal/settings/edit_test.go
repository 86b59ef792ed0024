package settings

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/banyan-hpc/banyan/internal/wholefile"
	"github.com/stretchr/testify/require"
)

// A part is replaced; the rest of the file, with its comments, stays.
func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "deep", "tune.conf")
	p := &Part{Machine: here, Comments: []string{"measured today"}, Measured: []ID{EagerNear, EagerFar},
		Lines: []Line{{EagerNear, 24 << 10, "better"}}}
	require.NoError(t, update(path, p))
	fresh := "[" + here + "]\n# measured today\nshm.eager.near = 24k     # better\n"
	require.Equal(t, fresh, read(t, path))

	old := "# mine\nunexpected = 4m\n\n[first]\nwait.spins = 1\n\n[" + here + "]\n# of last year\nshm.eager.near = 8k\n" +
		"wait.spins = 9 # by hand\nshm.eager.far = 2k\n# default kept\n\n# about the last\n[last]\nwait.spins = 2\n"
	require.NoError(t, os.WriteFile(path, []byte(old), 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(path, link))
	require.NoError(t, update(link, p))
	require.Equal(t, "# mine\nunexpected = 4m\n\n[first]\nwait.spins = 1\n\n"+fresh+"wait.spins = 9 # by hand\n\n# about the last\n[last]\nwait.spins = 2\n", read(t, path))

	require.NoError(t, os.WriteFile(path, []byte("nonsense\n"), 0o600))
	require.ErrorContains(t, update(path, p), "left as it is")
	require.Equal(t, "nonsense\n", read(t, path))

	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "no pieces remain")
	require.ErrorContains(t, update(filepath.Join(path, "below"), p), "not a directory")
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// Numbers that do not fit an int are refused, not wrapped.
func TestNumbersDoNotWrap(t *testing.T) {
	for _, unit := range []string{"", "k", "m", "g"} {
		n, ok := parseNumber("9223372036854775807"+unit, true)
		require.True(t, !ok || n > 0 && n <= math.MaxInt, unit)
	}
	require.True(t, slices.ContainsFunc(Knobs(), func(k Knob) bool { return k.Unit == Polls }))
}

// update writes a merged file, as ftbench tune does.
func update(path string, p *Part) error {
	text, err := Merged(path, p)
	if err != nil {
		return err
	}
	return wholefile.Write(path, []byte(text), 0o644)
}
