package main

import (
	"bytes"
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
)

const asRank = "FARM_TEST_RANK"

func TestMain(m *testing.M) {
	if os.Getenv(asRank) == "" {
		os.Exit(m.Run())
	}
	banyan.Run(func(w *banyan.World) error {
		switch c := w.Comm(); c.Rank() {
		case 0:
			return manage(c, 1000)
		case 1:
			return work(c, false)
		default:
			return answerAndDie(c)
		}
	})
}

func answerAndDie(c *banyan.Comm) error {
	task, _, err := banyan.RecvValue[int](c, 0, 0)
	if err == nil {
		err = banyan.SendValue(c, task*task, 0, 0)
	}
	if err != nil {
		return err
	}
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// Over sockets the report of a death may arrive before the dead worker's answer, which then counts
// only if no other worker has the task. Not every job has such an answer, so the test runs several.
func TestLateAnswers(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for range 4 {
		var got bytes.Buffer
		_, err := launch.Run(context.Background(), launch.Spec{
			N: 32, Argv: []string{self}, Env: append(os.Environ(), asRank+"=1", "BANYAN_FABRIC=unix"),
			OnFailure: launch.Continue, Stdout: &got, Stderr: &got,
		})
		require.NoError(t, err)
		require.Contains(t, got.String(), "1000 tasks done, sum of squares 332833500,")
	}
}
