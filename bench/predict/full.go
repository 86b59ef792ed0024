package predict

import (
	"errors"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// The virtual times of a job in the full simulator: ranks are killed at death, the others validate at
// repair, the measurement starts at begin, with all connections, and the ranks finalize at end.
const (
	death  = 100 * time.Millisecond
	repair = 500 * time.Millisecond
	begin  = 2 * time.Second
	end    = 1000 * time.Second
)

// Full runs a job with the library in the simulator: its ranks are killed, the others validate the
// communicator and call the library's operation. Costs are not charged, and Header is the library's. A
// job of 512 ranks takes a few seconds of real time.
func Full(j Job) (Result, error) {
	if err := j.check(); err != nil {
		return Result{}, err
	}
	if j.Place != nil {
		return Result{}, errors.New("predict: in the full simulator each rank has its own place")
	}
	net, err := newShape(&j, tree.Except(j.Ranks, j.Dead...))
	if err != nil {
		return Result{}, err
	}
	over, err := banyan.ParseTree(j.Shape.String())
	if err != nil {
		return Result{}, err
	}
	var last time.Duration
	err = banyan.Simulate(j.Ranks, banyan.Simulation{
		Configure: func(c *sim.Config) { *c = j.Machine },
		Options:   []banyan.Option{banyan.WithDesign(j.Design), banyan.WithTree(over)},
		Faults: func(m *sim.Sim) error {
			for _, rank := range j.Dead {
				if err := m.Kill(proc.ID(rank), fabric.Time(death)); err != nil {
					return err
				}
			}
			return nil
		},
	}, func(w *banyan.World) error {
		took, err := j.perform(w)
		last = max(last, took)
		w.Sleep(end - w.Now()) // departure notices of the first ranks would pass the ports of the others
		return err
	})
	if err != nil {
		return Result{}, err
	}
	return Result{Time: sim.Picos(last.Nanoseconds()) * sim.Nanosecond, Rounds: j.Rounds,
		Messages: j.messages(net), Depth: net.depth, Degree: net.degree}, nil
}

// perform is the part of one rank; it returns the time of its rounds.
func (j *Job) perform(w *banyan.World) (time.Duration, error) {
	w.Sleep(repair - w.Now())
	if len(j.Dead) > 0 {
		if _, err := w.Comm().Validate(); err != nil {
			return 0, fmt.Errorf("validate: %w", err)
		}
	}
	c := call{job: j, c: w.Comm()}
	// Afterwards no frame waits for its acknowledgement.
	if err := c.rounds(max(1, j.Machine.NodePort.AckEvery)); err != nil {
		return 0, err
	}
	if w.Now() >= begin {
		return 0, fmt.Errorf("predict: the ranks have not been ready before %v, at %v", begin, w.Now())
	}
	w.Sleep(begin - w.Now())
	err := c.rounds(j.Rounds)
	return w.Now() - begin, err
}

// call calls an operation at one rank.
type call struct {
	job       *Job
	c         *banyan.Comm
	buf, more []byte
}

// keep reduces nothing: that takes no virtual time anyway.
func keep(_, _ []byte) {}

func (k *call) rounds(n int) error {
	if k.buf == nil {
		k.buf = make([]byte, k.job.Bytes)
	}
	if k.job.Op.subtrees() && k.more == nil && k.c.Rank() == k.job.Root {
		k.more = make([]byte, k.job.Bytes*k.c.Size())
	}
	for range n {
		if err := k.once(); err != nil {
			return err
		}
	}
	return nil
}

func (k *call) once() error {
	switch k.job.Op {
	case Barrier:
		return k.c.Barrier()
	case Bcast:
		return k.c.Bcast(k.buf, k.job.Root)
	case Reduce:
		return k.c.Reduce(k.buf, k.buf, keep, k.job.Root)
	case Allreduce:
		return k.c.Allreduce(k.buf, k.buf, keep)
	case Gather:
		return k.c.Gather(k.buf, k.more, k.job.Root)
	default:
		return k.c.Scatter(k.more, k.buf, k.job.Root)
	}
}
