package examples_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/launch"
)

// The programs are built and run as a reader would run them.
func TestExamples(t *testing.T) {
	bin := t.TempDir()
	out, err := exec.Command("go", "build", "-o", bin, "./...").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, tc := range map[string]struct {
		n     int
		argv  []string
		want  string
		kills int // of the last ranks
	}{
		"pingpong":                     {2, []string{"pingpong"}, "8 bytes, one way: ", 0},
		"ring":                         {5, []string{"ring"}, "the token came back with 10, the sum of 5 ranks is 10", 0},
		"ring of one":                  {1, []string{"ring"}, "the token came back with 0", 0},
		"halo":                         {6, []string{"halo", "-side", "20", "-steps", "50"}, "6 ranks in 2 x 3 tiles, heat 1.000000 before, 1.000000 after 50 steps", 0},
		"farm":                         {4, []string{"farm"}, "1000 tasks done, sum of squares 332833500, workers lost: 0", 0},
		"farm, kill":                   {4, []string{"farm", "-kill"}, "1000 tasks done, sum of squares 332833500, workers lost: 1", 1},
		"consistent":                   {4, []string{"consistent"}, "100 splits done with 4 of 4 ranks left, 0 done over", 0},
		"consistent, kill":             {6, []string{"consistent", "-kill", "2"}, "100 splits done with 4 of 6 ranks left, ", 2},
		"consistent, kill all but one": {4, []string{"consistent", "-kill", "3"}, "100 splits done with 1 of 4 ranks left, ", 3},
		"refine":                       {4, []string{"refine"}, "solved with 4 of 4 ranks left, 0 recoveries, 690 iterations, largest error 4e-08", 0},
		"refine, kill":                 {6, []string{"refine", "-kill", "2"}, "solved with 4 of 6 ranks left, 2 recoveries, ", 2},
		"refine, kill all but one":     {4, []string{"refine", "-kill", "3"}, "solved with 1 of 4 ranks left, 3 recoveries, ", 3},
		"cg":                           {3, []string{"cg", "-side", "60"}, "solved by 3 of 3 ranks in ", 0},
		"cg, kill":                     {4, []string{"cg", "-side", "60", "-kill", "2"}, "solved by 2 of 4 ranks in ", 2},
		"samplesort":                   {5, []string{"samplesort", "-n", "100000"}, "100000 numbers sorted by 5 ranks", 0},
		"samplesort, kill":             {4, []string{"samplesort", "-kill"}, "400000 numbers sorted by 3 ranks", 1},
		"samplesort of one":            {1, []string{"samplesort", "-n", "100"}, "100 numbers sorted by 1 ranks", 0},
		"alltoall":                     {4, []string{"alltoall"}, "second of 65536 bytes: ", 0},
		"alltoall of one":              {1, []string{"alltoall"}, "first  of     8 bytes: ", 0},
		"steps":                        {4, []string{"steps"}, "ten steps done, in the end by 3", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			argv := append([]string{filepath.Join(bin, tc.argv[0])}, tc.argv[1:]...)
			res, err := launch.Run(context.Background(), launch.Spec{
				N: tc.n, Argv: argv, Env: os.Environ(), OnFailure: launch.Continue, Stdout: &got, Stderr: &got,
			})
			require.NoError(t, err)
			require.Contains(t, got.String(), tc.want)
			for rank, e := range res.Ends {
				switch {
				case rank >= tc.n-tc.kills:
					require.Equal(t, syscall.SIGKILL, e.Signal)
				case name == "steps" && rank == 1:
					require.True(t, e.Failed())
				default:
					require.False(t, e.Failed(), "rank %d: %v\n%s", rank, e, got.String())
				}
			}
		})
	}
}

// The program in the guide is the one that is run here.
func TestGuideHasThePrograms(t *testing.T) {
	guide, err := os.ReadFile("../docs/guide.md")
	require.NoError(t, err)
	program, err := os.ReadFile("steps/main.go")
	require.NoError(t, err)
	_, body, found := bytes.Cut(program, []byte("package main\n"))
	require.True(t, found)
	require.Contains(t, string(guide), "```go\npackage main\n"+string(body)+"```\n")
}
