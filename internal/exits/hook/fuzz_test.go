package hook

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process's status contains a pid and a level, or is refused.
func FuzzStatus(f *testing.F) {
	f.Add("Name:\tx\nNSpid:\t4711\nNSpgid:\t1\n")
	f.Add("NSpid:\t4711\t12\t1\n")
	f.Add("NSpid:\n")
	f.Add("NSpid:\t-1\t99999999999\n")
	f.Fuzz(func(t *testing.T, status string) {
		pid, level := innermost(strings.NewReader(status))
		require.GreaterOrEqual(t, pid, 0)
		require.LessOrEqual(t, level, len(status))
		if level < 0 {
			require.Zero(t, pid)
		}
	})
}
