package drill

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/launch"
)

// Driver carries out runs, one at a time, and counts.
type Driver struct {
	Config
	// Argv is the program that a rank is; it calls [Rank] where [Env] is set.
	Argv []string
	// Prepare, if it is not nil, changes how a run is started. With hosts above 0 it places the
	// ranks on so many.
	Prepare func(spec *launch.Spec, hosts int) error
	// Flood makes unauthenticated connections to a port until the context ends; nil: none.
	Flood func(ctx context.Context, to netip.AddrPort) error
	// Patience is the time without the end of an operation after which ranks count as hanging, beside
	// that for which ranks sleep. 0: half a minute.
	Patience time.Duration

	Report Report
}

// Finding is a run that went wrong.
type Finding struct {
	Seed  uint64
	Story string // the run and the output of its ranks
	Err   error
}

// Error describes the finding.
func (f *Finding) Error() string { return fmt.Sprintf("seed %d: %v\n%s", f.Seed, f.Err, f.Story) }

// Unwrap returns the error.
func (f *Finding) Unwrap() error { return f.Err }

const usualPatience = 30 * time.Second

// Run carries out the run of a seed with processes and checks that no resources are left. The error
// is a *[Finding] if it concerns the ranks. The fabric and the number of ranks depend on the Config
// too.
func (d *Driver) Run(ctx context.Context, seed uint64) error { return d.run(ctx, seed, noKind) }

// Aim is Run with the first death within an operation.
func (d *Driver) Aim(ctx context.Context, seed uint64, k Kind) error { return d.run(ctx, seed, k) }

func (d *Driver) run(ctx context.Context, seed uint64, aim Kind) (err error) {
	if err := d.Check(); err != nil {
		return err
	}
	p := newPlan(script{Config: d.Config, Seed: seed, Aim: aim})
	path, tr, err := newTrace(p.n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tr.close(), os.Remove(path)) }()
	p.Trace = path
	dir, err := os.MkdirTemp("", "banyan-drill-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	words := newReader(p)
	words.kill = words.killProcess
	var errs bytes.Buffer
	result, err := d.launch(ctx, p, tr, dir, words, &errs)
	if ctx.Err() != nil {
		return err
	}
	words.text.Write(errs.Bytes())
	var ends []rankEnd
	if err == nil {
		for _, end := range result.Ends {
			ends = append(ends, rankEnd{
				killed: end.Signal == unix.SIGKILL, missing: end.Code == CodeMissing,
				failed: end.Failed(), text: end.String(),
			})
		}
	}
	return d.finish(p, tr, ends, words, err, func() error { return left(dir, words.pids) })
}

// rankEnd is how a rank ended.
type rankEnd struct {
	killed, missing, failed bool
	text                    string
}

// finish applies the rules that concern all ranks, and counts a run without a finding.
func (d *Driver) finish(p *plan, tr *trace, ends []rankEnd, words *reader, err error, left func() error) error {
	if err == nil {
		err = p.judge(ends, words)
	}
	if err == nil {
		err = errors.Join(words.compare(), tr.owed(p, ends, words.survivors()))
	}
	if err == nil {
		err = left()
	}
	if err != nil {
		return &Finding{p.Seed, p.String() + words.text.String(), err}
	}
	d.Report.add(p, tr, ends)
	return nil
}

// launch starts the ranks and waits for their end. Ranks that hang are asked for their operation, and
// ended.
func (d *Driver) launch(ctx context.Context, p *plan, tr *trace, dir string, words *reader, errs *bytes.Buffer) (
	*launch.Result, error,
) {
	signals := make(chan os.Signal, 2)
	spec := launch.Spec{
		N: p.n, Argv: d.Argv, OnFailure: launch.Continue, Signals: signals,
		Export: []string{Env + "=" + p.text(), "TMPDIR=" + dir, "BANYAN_TUNING=none", flatVariable + "=" + p.flat()},
		Stdout: words, Stderr: errs,
	}
	spec.Export = append(spec.Export, p.detection()...)
	if d.Prepare != nil {
		if err := d.Prepare(&spec, p.hosts); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var floods sync.WaitGroup
	flooded := make(chan error, p.n) // one for each port
	if d.Flood != nil {
		words.flood = func(to netip.AddrPort) {
			floods.Go(func() { flooded <- d.Flood(ctx, to) })
		}
	}
	off := watchdog(d.patience(p), tr, signals, cancel)
	result, err := launch.Run(ctx, spec)
	off()
	words.stop()
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	cancel(nil)
	floods.Wait()
	close(flooded)
	for ferr := range flooded {
		err = errors.Join(err, ferr)
	}
	return result, err
}

// patience is the time after which ranks of a plan count as hanging.
func (d *Driver) patience(p *plan) time.Duration {
	return cmp.Or(d.Patience, usualPatience) + p.sleep()
}

var errHang = errors.New("ranks hang")

// The time in which ranks that hang print their operations, and then their stacks, unless the
// watchdog's patience is shorter.
const (
	untilStacks = 5 * time.Second
	untilEnd    = 10 * time.Second
)

// watchdog asks the ranks of a job without progress for their operations, then for their stacks, and
// ends the job. A slow machine is no reason. The returned function stops it.
func watchdog(patience time.Duration, t *trace, signals chan<- os.Signal, cancel context.CancelCauseFunc) (
	off func(),
) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		steps := []func(){
			func() { signals <- syscall.SIGUSR1 },
			func() { signals <- syscall.SIGQUIT },
			func() { cancel(errHang) },
		}
		waits := []time.Duration{patience, min(patience, untilStacks), min(patience, untilEnd)}
		for step, sum := 0, -1; step < len(steps); {
			if now := t.sum(); step == 0 && now != sum {
				sum = now
			} else {
				steps[step]()
				step++
			}
			select {
			case <-done:
				return
			case <-time.After(waits[min(step, len(waits)-1)]):
			}
		}
	}()
	return func() { close(done); <-over }
}

// judge checks how the ranks ended, and that blamed ranks are dead.
func (p *plan) judge(ends []rankEnd, words *reader) error {
	for rank, end := range ends {
		_, doomed := p.doomed[rank]
		switch {
		case doomed && end.killed, end.missing:
		case end.failed, end.killed:
			return fmt.Errorf("rank %d %s", rank, end.text)
		case words.ends[rank] == nil:
			return fmt.Errorf("rank %d ended without a report", rank)
		}
	}
	for rank, last := range words.ends {
		for _, blamed := range last.Blamed {
			if end := ends[blamed]; !end.killed && !end.missing {
				return fmt.Errorf("rank %d blames rank %d, which %s", rank, blamed, end.text)
			}
		}
	}
	return nil
}

// left checks for files and processes that a run has left behind.
func left(dir string, pids map[int]int) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		return fmt.Errorf("a file is left: %s", filepath.Join(dir, f.Name()))
	}
	for rank, pid := range pids {
		if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("the process of rank %d is left: %w", rank, err)
		}
	}
	return nil
}
