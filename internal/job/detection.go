package job

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/ft/control"
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/nodemem"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// ExitFenced is the exit code of a rank that ends itself because it counts as failed at others.
const ExitFenced = join.ExitFenced

// detector is how the failure detector runs.
type detector struct {
	on              bool
	period, timeout fabric.Time
	rule            detect.Rule
	usual           bool // both times are the defaults
	longer          bool // both are crowdPatience times the defaults
}

// crowdPatience is how much longer a silence may last by default where ranks share cores, and the time between
// two heartbeats. 32 ranks that compute and collect garbage on two cores lost each other over sockets after three seconds.
// The heartbeats of 62 ranks that slept took a fifth off the message rate of two others.
const crowdPatience = 4

// detectorOf takes the detector from settings.
func detectorOf(s *settings.Set) detector {
	millis := func(id settings.ID) fabric.Time { return fabric.Time(s.Int(id)) * fabric.Time(time.Millisecond) }
	return detector{
		on:     s.On(settings.Detect),
		period: millis(settings.DetectPeriod), timeout: millis(settings.DetectTimeout),
		rule:  detect.Rule(s.Int(settings.DetectPartition)),
		usual: !s.Changed(settings.DetectPeriod) && !s.Changed(settings.DetectTimeout),
	}
}

// adapt makes the default times longer where a node is crowded. All ranks have the same topology,
// so they come to the same times.
func (d *detector) adapt(t *route.Topology, log *slog.Logger) {
	if !d.on || !d.usual || t.Size() == 1 {
		return
	}
	for node := range t.Nodes() {
		if t.Crowded(node) {
			d.period, d.timeout, d.longer = d.period*crowdPatience, d.timeout*crowdPatience, true
			if log != nil {
				log.Info("detect.period and detect.timeout are longer, as ranks share cores",
					"period", time.Duration(d.period), "timeout", time.Duration(d.timeout))
			}
			return
		}
	}
}

// patienceParts is how many times detect.timeout is as long as the time that an adapter, or a socket, waits for another one: heartbeats
// go by another path well before a rank counts as silent.
const patienceParts = 6

// patience is the time that an adapter, or a socket, waits for the answer of another one; 0: the usual time.
func (d *detector) patience() time.Duration {
	if !d.on {
		return 0
	}
	return time.Duration(d.timeout) / patienceParts
}

// Detection is the failure detection of this rank. The root package documents its fields.
type Detection struct {
	On              bool
	Period, Timeout time.Duration
	Longer          int
	Partition       string
	Evidence        string
}

// describe describes the detector to users.
func (d *detector) describe(cfg *progress.Config, alone bool) Detection {
	out := Detection{Evidence: "connection"}
	if cfg.Shm != nil {
		out.Evidence = cfg.Shm.Evidence()
	}
	if !d.on || alone {
		return out
	}
	out.On, out.Period, out.Timeout = true, time.Duration(d.period), time.Duration(d.timeout)
	out.Partition, out.Longer = d.rule.String(), 1
	if d.longer {
		out.Longer = crowdPatience
	}
	return out
}

// Detection describes the failure detection of this rank.
func (j *Job) Detection() Detection { return j.detection }

// startDetector starts the failure detector, unless it is off or the rank is alone.
func (j *Job) startDetector(cfg *progress.Config, c *config) error {
	d := &c.detector
	if !d.on || j.Size() == 1 {
		return nil
	}
	j.detector = control.Start(control.Config{
		Engine: j.Progress, Die: j.expire, Departed: j.agreements.Departed, Log: j.log,
		Condemned: func(peer proc.ID, silent fabric.Time, killed bool) {
			if killed || silent > 0 {
				j.boot.Warn(condemned(peer, silent, d.timeout, killed))
			}
			if !killed && d.rule != detect.Off { // Off: each side of a partition continues alone
				j.boot.Lose(int(peer))
			}
		},
		Detect: detect.Config{
			Self: j.Self, Procs: j.Size(), Period: d.period, Timeout: d.timeout,
			Seed: uint64(cfg.Host.Now()), Partition: d.rule,
			Node: j.NodeOfProc,
		},
	})
	return nil
}

// condemned explains why a rank that is not known to have ended counts as failed, and which setting
// avoids that. Without this line an unexplained SIGKILL would be all that is seen. silent is how
// long nothing was received from it; 0: another rank has found that.
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

// openExits opens the kernel's record of ended processes if this machine offers it; else nil, and
// shared memory has means of its own. The first rank of the machine warns if the user has named an agent
// and none is there.
func (l *launched) openExits() *exits.Table {
	if l.Size() == 1 {
		return nil
	}
	t, err := exits.Open()
	switch {
	case err == nil:
		return t
	case exits.Named() && first(l.launcher):
		l.Warn(fmt.Sprintf("failures are not reported by the kernel's record: %v: start the agent there, or unset %s", err, exits.Env))
	case l.log != nil:
		l.log.Info("failures are not reported by the kernel's record", "reason", err)
	}
	return nil
}

func closeExits(t *exits.Table) error {
	if t == nil {
		return nil
	}
	return t.Close()
}

// findNode finds the memory that the launcher has made for the ranks of this machine. Without it each
// rank maps the memory of each other.
func findNode(size int, log *slog.Logger) nodemem.Place {
	place, err := nodemem.Find(size)
	if err != nil && !errors.Is(err, nodemem.ErrNone) && log != nil {
		log.Info("ranks map each other's memory one by one", "reason", err)
	}
	return place
}
