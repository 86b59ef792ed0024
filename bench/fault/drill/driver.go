package drill

import (
	"bytes"
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
	// Prepare changes how a run is started, if it is not nil: with hosts above 0 it puts the
	// ranks on so many.
	Prepare func(spec *launch.Spec, hosts int) error
	// Besiege sends strangers to a port until the context ends; nil: none come.
	Besiege func(ctx context.Context, to netip.AddrPort) error
	// Patience is after how long, in which no operation has ended, ranks are taken to hang. 0:
	// half a minute.
	Patience time.Duration

	Report Report
}

// Finding is a run that went wrong.
type Finding struct {
	Seed  uint64
	Story string // what the run was, and what its ranks said
	Err   error
}

// Error says what was found, and how to see it again.
func (f *Finding) Error() string { return fmt.Sprintf("seed %d: %v\n%s", f.Seed, f.Err, f.Story) }

// Unwrap gives what was found.
func (f *Finding) Unwrap() error { return f.Err }

const usualPatience = 30 * time.Second

// Run carries out the run of a seed and checks what it leaves. What it finds is an
// error; a *[Finding] if it is about the ranks. Which fabric and how many ranks the seed
// means depends on the Config.
func (d *Driver) Run(ctx context.Context, seed uint64) error { return d.run(ctx, seed, noKind) }

// Aim is Run of which the first rank to die is to do so within an operation.
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
	words := &reader{p: p, pids: map[int]int{}}
	var errs bytes.Buffer
	result, err := d.launch(ctx, p, tr, dir, words, &errs)
	if err == nil {
		err = d.judge(p, result, words)
	}
	if err == nil {
		err = errors.Join(tr.compare(words.survivors()), tr.owed(p, result, words.survivors()))
	}
	if err == nil {
		err = left(dir, words.pids)
	}
	if err != nil && ctx.Err() == nil {
		story := fmt.Sprintf("%d ranks, fabric %s, profile %v, aim %v, doomed %+v, sleep %+v\n%s%s", p.n, p.fabric, p.profile, aim, p.doomed, p.naps, words.text.String(), errs.String())
		return &Finding{seed, story, err}
	}
	if err == nil {
		d.Report.add(p, tr, result)
	}
	return err
}

// launch starts the ranks, waits for their end, and has them asked and ended if
// they hang.
func (d *Driver) launch(ctx context.Context, p *plan, tr *trace, dir string, words *reader, errs *bytes.Buffer) (*launch.Result, error) {
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
	var siege sync.WaitGroup
	var sieges errorList
	if d.Besiege != nil {
		words.besiege = func(to netip.AddrPort) {
			siege.Go(func() { sieges.add(d.Besiege(ctx, to)) })
		}
	}
	patience := d.Patience
	if patience == 0 {
		patience = usualPatience
	}
	off := watchdog(patience, tr, signals, cancel)
	result, err := launch.Run(ctx, spec)
	off()
	words.stop()
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	cancel(nil)
	siege.Wait()
	return result, errors.Join(err, errors.Join(sieges.errs...))
}

// errorList is for several goroutines.
type errorList struct {
	mu   sync.Mutex
	errs []error
}

func (l *errorList) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

var errHang = errors.New("ranks hang")

// How long ranks that hang have to say what they wait for, and to write their stacks, unless
// the watchdog's patience is shorter.
const (
	untilStacks = 5 * time.Second
	untilEnd    = 10 * time.Second
)

// watchdog asks the ranks of a job in which no operation ends any more what they wait for,
// then for their stacks, and ends it. A machine that is slow, with some ranks on each core, is no
// reason. The function returned calls it off.
func watchdog(patience time.Duration, t *trace, signals chan<- os.Signal, cancel context.CancelCauseFunc) (off func()) {
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

// judge checks how the ranks ended, and that whoever was blamed is dead.
func (d *Driver) judge(p *plan, result *launch.Result, words *reader) error {
	for rank, end := range result.Ends {
		_, doomed := p.doomed[rank]
		switch {
		case doomed && end.Signal == unix.SIGKILL, end.Code == CodeMissing:
		case end.Failed():
			return fmt.Errorf("rank %d %v", rank, end)
		case words.ends[rank] == nil:
			return fmt.Errorf("rank %d ended without a word", rank)
		}
	}
	for rank, last := range words.ends {
		for _, blamed := range last.blamed {
			if end := result.Ends[blamed]; end.Signal != unix.SIGKILL && end.Code != CodeMissing {
				return fmt.Errorf("rank %d blames rank %d, which %v", rank, blamed, end)
			}
		}
	}
	return nil
}

// left says what a run has left.
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
