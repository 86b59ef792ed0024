package predict

import (
	"errors"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// In the full simulator a job is measured from the virtual time begin, when all connections are there, and its ranks
// part at the time end.
const (
	begin = time.Second
	end   = 1000 * time.Second
)

// Full does a job in the full simulator: each rank runs the library's own engine, with its matching and flow control,
// and walks its plan with blocking sends and receives, in the order that Run assumes. Costs are not charged, and Place is not used. For 512
// ranks a round takes about 10 ms of this program's time.
func Full(j Job) (Result, error) {
	if err := j.check(); err != nil {
		return Result{}, err
	}
	if j.Place != nil {
		return Result{}, errors.New("predict: Place is for Run alone")
	}
	a := tree.Except(j.Ranks, j.Dead...)
	net, err := newShape(&j, a)
	if err != nil {
		return Result{}, err
	}
	var last time.Duration
	err = banyan.Simulate(j.Ranks, banyan.Simulation{
		Configure: func(c *sim.Config) { *c = j.Machine },
	}, func(w *banyan.World) error {
		me := a.Number(w.Comm().Rank())
		if me < 0 {
			return nil
		}
		k := walker{job: &j, net: net, alive: a, c: w.Comm(), me: int32(me)}
		if err := k.rounds(max(1, j.Machine.NodePort.AckEvery)); err != nil {
			return err
		}
		if w.Now() >= begin {
			return fmt.Errorf("the rounds before have taken %v", w.Now())
		}
		w.Sleep(begin - w.Now())
		err := k.rounds(j.Rounds)
		last = max(last, w.Now()-begin)
		w.Sleep(end - w.Now()) // the farewells of those who are ready first would pass the ports of those who are not
		return err
	})
	if err != nil {
		return Result{}, err
	}
	return Result{Time: sim.Picos(last.Nanoseconds()) * sim.Nanosecond, Rounds: j.Rounds,
		Messages: j.messages(net), Depth: net.depth, Degree: net.degree}, nil
}

// walker does an operation at one rank.
type walker struct {
	job   *Job
	net   *shapeOf
	alive *tree.Alive
	c     *banyan.Comm
	me    int32
	buf   []byte
}

func (k *walker) rounds(n int) error {
	order := machine{job: k.job, net: k.net}
	for range n {
		for step := int32(0); ; step++ {
			t, more := order.turn(k.me, step)
			if !more {
				break
			}
			if err := k.exchange(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// exchange does one message.
func (k *walker) exchange(t turn) error {
	n := k.job.length(k.net.subtree[t.edge]) - k.job.Header
	if len(k.buf) < n {
		k.buf = make([]byte, n)
	}
	peer := k.net.parent[t.edge]
	if k.me == peer {
		peer = t.edge
	}
	if t.sends {
		return k.c.Send(k.buf[:n], k.alive.Rank(int(peer)), 0)
	}
	_, err := k.c.Recv(k.buf[:n], k.alive.Rank(int(peer)), 0)
	return err
}
