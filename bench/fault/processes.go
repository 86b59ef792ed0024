package fault

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/launch"
)

// Processes starts the ranks of jobs as processes.
type Processes struct {
	Argv []string
	// Export are environment variables beside those of this process.
	Export []string
	Stderr io.Writer
	// Bind binds each rank to a core of its own.
	Bind bool
	// InitTimeout is how long ranks may take to join; 0: the launcher's default.
	InitTimeout time.Duration
	// Abort ends the job at the first failure, whose consequences are of no interest then.
	Abort bool
	// MayEnd reports whether a rank may fail in this way; nil: victims may be killed by SIGKILL.
	MayEnd func(victim bool, end launch.End) bool
	// Prepare changes how a job is started; may be nil.
	Prepare func(*launch.Spec) error
}

// Start implements the function type [Start].
func (p Processes) Start(ctx context.Context, n int, victim func(rank int) bool, out io.Writer) error {
	spec := launch.Spec{
		N: n, Argv: p.Argv, OnFailure: launch.Continue, Env: os.Environ(), Export: p.Export,
		Stdout: out, Stderr: p.Stderr, InitTimeout: p.InitTimeout,
	}
	if p.Abort {
		spec.OnFailure = launch.Abort
	}
	if p.Bind {
		spec.Bind = launch.BindCore
	}
	if p.Prepare != nil {
		if err := p.Prepare(&spec); err != nil {
			return err
		}
	}
	mayEnd := p.MayEnd
	if mayEnd == nil {
		mayEnd = func(victim bool, end launch.End) bool { return victim && end.Signal == unix.SIGKILL }
	}
	result, err := launch.Run(ctx, spec)
	if err != nil {
		return err
	}
	for rank, end := range result.Ends {
		if end.Failed() && !mayEnd(victim(rank), end) {
			return fmt.Errorf("fault: rank %d %v", rank, end)
		}
	}
	return result.Output
}
