package launch

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// When memory runs out the kernel takes a rank and not the launcher, which is needed to report and
// end the job.
func TestRanksAreKilledBeforeTheLauncher(t *testing.T) {
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	require.NoError(t, err)
	own, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	var out bytes.Buffer
	script := fmt.Sprintf(`n=0; until test "$(cat /proc/self/oom_score_adj)" = %d; do n=$((n+1)); test $n -lt 1000 || exit 3; sleep 0.01; done`, min(own+300, 1000))
	res, err := Run(t.Context(), Spec{N: 2, Argv: []string{"/bin/sh", "-c", script}, Env: os.Environ(), Stdout: &out, Stderr: &out})
	require.NoError(t, err)
	require.Zero(t, res.Code, out.String())
}
