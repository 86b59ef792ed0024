package banyan

import (
	"fmt"
	"math"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/ft/control"
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// ExitExpelled is the exit code of a rank that ends itself because it counts as
// dead at the others, or because it has lost a partition (docs/guide.md).
const ExitExpelled = join.ExitFenced

// pulse is how the failure detector runs; off: there is none.
type pulse struct {
	on              bool
	period, timeout fabric.Time
	rule            detect.Rule
	usual           bool // nobody has chosen the times
	longer          bool // the timeout is crowdPatience times the default
}

// crowdPatience is how much longer a silence may last by default where ranks share cores.
// 32 ranks that compute and collect garbage on two cores lost each other over sockets
// after three seconds.
const crowdPatience = 4

// adapt makes the default times longer where a node is crowded. All ranks have the same
// topology, so they come to the same times.
func (p *pulse) adapt(t *route.Topology, logf func(string, ...any)) {
	if !p.on || !p.usual || t.Size() == 1 {
		return
	}
	for node := range t.Nodes() {
		if t.Crowded(node) {
			p.timeout, p.longer = p.timeout*crowdPatience, true
			if logf != nil {
				logf("detect.timeout is %v, as ranks share cores", time.Duration(p.timeout))
			}
			return
		}
	}
}

// pulseOf takes what settings say.
func pulseOf(s *settings.Set) pulse {
	millis := func(id settings.ID) fabric.Time { return fabric.Time(s.Int(id)) * fabric.Time(time.Millisecond) }
	return pulse{
		on:     s.On(settings.Detect),
		period: millis(settings.DetectPeriod), timeout: millis(settings.DetectTimeout),
		rule:  detect.Rule(s.Int(settings.DetectPartition)),
		usual: !s.Changed(settings.DetectPeriod) && !s.Changed(settings.DetectTimeout),
	}
}

// overrides are the settings that WithDetection gives.
func (d *detection) overrides() []override {
	switch {
	case d == nil:
		return nil
	case *d == detection{}:
		return []override{{true, settings.Detect, 0, detectionName}}
	}
	return []override{
		{true, settings.Detect, 1, detectionName},
		{true, settings.DetectPeriod, wholeMillis(d.period), detectionName},
		{true, settings.DetectTimeout, wholeMillis(d.timeout), detectionName},
	}
}

const detectionName = "WithDetection"

// wholeMillis is a number that no knob takes where d is not in whole milliseconds.
func wholeMillis(d time.Duration) int {
	if d%time.Millisecond != 0 {
		return math.MinInt
	}
	return int(d.Milliseconds())
}

// observe starts the failure detector of this rank, if there is to be one.
func (w *World) observe(p *pulse, host fabric.Host) {
	if !p.on || w.job.Size() == 1 {
		return
	}
	w.pulse = control.Start(control.Config{
		Engine: w.progress, Die: w.expire, Logf: w.logf,
		Condemned: func(peer proc.ID, silent fabric.Time, killed bool) {
			w.job.Warn(condemned(peer, silent, p.timeout, killed))
		},
		Detect: detect.Config{
			Self: w.progress.Self(), Procs: w.job.Size(), Period: p.period, Timeout: p.timeout,
			Seed: uint64(host.Now()), Partition: p.rule,
			Node: func(id proc.ID) int { return w.job.Node(int(id)) },
		},
	})
}

// condemned says why a rank counts as dead that is not known to have ended, and what to set: without this
// line a signal of nobody's would be all that is seen of it. Nothing was heard of it for so long here; 0: somebody else has
// found that.
func condemned(peer proc.ID, silent, timeout fabric.Time, killed bool) string {
	how := "was silent for " + time.Duration(silent).Round(time.Millisecond).String() + ", though all were asked"
	if silent == 0 {
		how = "was silent for so long, as others have found"
	}
	what := "and ends itself if it was only stopped or starved"
	if killed {
		what = "and has been killed"
	}
	return fmt.Sprintf("rank %d counts as dead %s: it %s; detect.timeout is %v, "+
		"raise it (BANYAN_DETECT_TIMEOUT) if ranks are to survive longer stops", peer, what, how, time.Duration(timeout))
}

// applyDetection takes what the option says, for the simulator: without it there is
// no detector.
func (o *options) applyDetection() error {
	if o.detect == nil {
		return nil
	}
	s := settings.Defaults()
	if err := o.override(s); err != nil {
		return err
	}
	o.pulse = pulseOf(s)
	return nil
}

// openEnds opens what the kernel records of ended processes, if somebody on this machine
// offers it; else nil, and shared memory has its own means.
func openEnds(ranks int, logf func(string, ...any)) *exits.Table {
	if ranks == 1 {
		return nil
	}
	t, err := exits.Open()
	switch {
	case err == nil:
		return t
	case logf != nil:
		logf("deaths are not told of by the kernel's record: %v", err)
	}
	return nil
}

func closeEnds(t *exits.Table) error {
	if t == nil {
		return nil
	}
	return t.Close()
}
