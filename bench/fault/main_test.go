package fault

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/banyan-hpc/banyan"
)

// roleVariable makes the test binary a rank of a job of its own tests.
const roleVariable = "BANYAN_TEST_ROLE"

func TestMain(m *testing.M) {
	role, isRank := os.LookupEnv(roleVariable)
	if !isRank {
		os.Setenv("BANYAN_TUNING", "none") // the tests are of the harness, not of this machine's settings
		os.Exit(m.Run())
	}
	if err := playRole(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

// greeting is a line of a rank that is no report.
const greeting = "a rank greets\n"

// playRole is the life of a rank.
func playRole(role string) error {
	w, err := banyan.Init(banyan.WithErrorsFatal(false))
	if err != nil {
		return err
	}
	fmt.Print(greeting)
	var kind string
	var op Op
	var failures int
	if _, err := fmt.Sscan(role, &kind, &op, &failures); err != nil {
		return err
	}
	switch kind {
	case "detect":
		o := detection
		o.Wait = Wait(op)
		err = o.Rank(w, os.Stdout)
	case "collective":
		err = collectiveOf(op, failures).Rank(w, os.Stdout)
	case "unknown":
		err = collectiveOf(op, failures).RankUnknown(w, 1, os.Stdout)
	case "recovery":
		o := recovery
		o.Op, o.Failures = op, failures
		err = o.Rank(w, os.Stdout)
	}
	if err != nil {
		return err
	}
	return w.Finalize()
}

// processes starts jobs of real ranks with a role. Their standard error is part of the job's error.
func processes(kind string, op Op, failures int) Start {
	return func(ctx context.Context, n int, victim func(int) bool, out io.Writer) error {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		var errs strings.Builder
		role := fmt.Sprintf("%s=%s %s %d", roleVariable, kind, op, failures)
		p := Processes{Argv: []string{exe}, Export: []string{role}, Stderr: &errs}
		if err := p.Start(ctx, n, victim, out); err != nil {
			return fmt.Errorf("%w\n%s", err, errs.String())
		}
		return nil
	}
}

// silentJob is a job without reports, which ends with the given error.
func silentJob(err error) Start {
	return func(context.Context, int, func(int) bool, io.Writer) error { return err }
}
