package detection

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// parted is a job of n ranks, of which two cannot reach each other after a certain time.
type parted struct {
	n        int
	low      proc.ID
	high     proc.ID
	at       fabric.Time
	detector bool
	meet     bool // all pairs have exchanged messages before
	absent   bool // the higher one takes part in no agreement
	killed   bool // the lower one dies soon after, before the agreement
	groups   [][]int
	ends     []proc.Cause
}

// run has all ranks agree some time after the partition, and then shrink until no new rank has
// failed.
func (x *parted) run(seed uint64) error {
	x.groups, x.ends = make([][]int, x.n), make([]proc.Cause, x.n)
	var machine *sim.Sim
	period, timeout := 200*time.Millisecond, time.Second
	if !x.detector {
		period, timeout = 0, 0
	}
	err := banyan.Simulate(x.n, banyan.Simulation{
		Seed: seed, Options: []banyan.Option{banyan.WithDetection(period, timeout)},
		Configure: func(c *sim.Config) { c.MaxTime = fabric.Time(time.Minute) },
		Faults: func(s *sim.Sim) error {
			machine = s
			if x.killed {
				return errors.Join(s.Disconnect(x.low, x.high, x.at), s.Kill(x.low, x.at+100_000_000))
			}
			return s.Disconnect(x.low, x.high, x.at)
		},
	}, x.body)
	for id := range proc.ID(x.n) {
		x.ends[id], _ = machine.Ended(id)
	}
	return err
}

func (x *parted) body(w *banyan.World) error {
	c := w.Comm()
	if x.meet {
		for peer := range c.Size() {
			_, _ = c.Sendrecv(nil, peer, 1, nil, peer, 1) // until after the partition
		}
	}
	if x.absent || x.killed {
		for w.Now() < time.Second { // until after the partition, and in one rank for ever
			w.Sleep(time.Millisecond)
			_, _, _ = c.Iprobe(c.Rank(), 1)
		}
		for x.absent && proc.ID(c.Rank()) == x.high {
			w.Sleep(time.Millisecond)
			_, _, _ = c.Iprobe(c.Rank(), 1)
		}
	}
	for {
		before := c.Size()
		left, err := c.Shrink()
		if err != nil {
			return err
		}
		if c = left; c.Size() == before {
			break
		}
	}
	mine := make([]int, c.Size())
	for rank := range mine {
		mine[rank] = rank
	}
	all, err := c.Group().Translate(mine, w.Comm().Group())
	if err != nil {
		return err
	}
	x.groups[w.Comm().Rank()] = all
	for w.Now() < 10*time.Second { // so that no rank is seen to depart
		w.Sleep(50 * time.Millisecond)
		_, _, _ = c.Iprobe(c.Rank(), 1)
	}
	return nil
}

// judge checks that all ranks that lived to the end know of the same failed ranks, and that only
// the higher of the two may be lost.
func (x *parted) judge() error {
	lost := proc.Cause{Kind: proc.Exited, Code: banyan.ExitFenced}
	var want []int
	for rank := range x.n {
		switch {
		case x.ends[rank].Kind == proc.Departed:
			want = append(want, rank)
		case x.ends[rank] != lost || rank != int(x.high):
			return fmt.Errorf("rank %d: %v, ranks %d and %d parted", rank, x.ends[rank], x.low, x.high)
		}
	}
	if x.ends[x.high] == lost && slices.Contains(x.groups[want[0]], int(x.high)) {
		want = append(want, int(x.high)) // lost after the others had agreed
		slices.Sort(want)
	}
	for _, rank := range want {
		if x.ends[rank] != lost && !slices.Equal(want, x.groups[rank]) {
			return fmt.Errorf("rank %d counts %v, ranks %d and %d parted, alive %v", rank, x.groups[rank], x.low,
				x.high, want)
		}
	}
	return nil
}

// Two ranks that cannot reach each other have to agree. All others come to one view of them: the
// higher one counts as failed and ends itself, and no rank waits for ever. It does not matter which
// rank finds it, whether the two had met, and whether a detector runs.
func TestPartedAgree(t *testing.T) {
	lost := 0
	for seed := uint64(1); seed <= uint64(ranktest.Scaled(400, 4)); seed++ {
		r := rand.New(rand.NewPCG(seed, 8))
		x := &parted{n: 2 + r.IntN(11), detector: r.IntN(2) == 0, meet: r.IntN(2) == 0}
		two := r.Perm(x.n)
		x.low, x.high = proc.ID(min(two[0], two[1])), proc.ID(max(two[0], two[1]))
		if x.meet {
			x.at = fabric.Time(r.IntN(60_000))
		}
		err := x.run(seed)
		story := fmt.Sprintf("seed %d: %d ranks, %d and %d parted at %v, detector %v, met %v: %v", seed, x.n, x.low,
			x.high, time.Duration(x.at), x.detector, x.meet, err)
		require.NoError(t, x.judge(), "%s", story)
		if x.ends[x.high].Kind == proc.Departed {
			require.NoError(t, err, "%s", story)
			continue
		}
		lost++
		require.ErrorContains(t, err, fmt.Sprintf("rank %d ends itself", x.high), "%s", story)
		require.ErrorContains(t, err, fmt.Sprintf("rank %d and rank %d", x.low, x.high), "%s", story)
	}
	t.Logf("%d ranks lost", lost)
	ranktest.Occurred(t, lost, "no rank was lost")
}

// A rank that takes part in no agreement learns from the others that it counts as failed, and why.
func TestPartedAbsent(t *testing.T) {
	for seed := uint64(1); seed <= ranktest.Seeds(20); seed++ {
		r := rand.New(rand.NewPCG(seed, 9))
		x := &parted{n: 1 + 2<<r.IntN(3), at: 500_000_000, detector: seed%2 == 0, meet: true, absent: true}
		x.high = proc.ID(x.n - 1) // a leaf below rank 0, which alone waits for it
		err := x.run(seed)
		story := fmt.Sprintf("seed %d: %d ranks, %d and %d parted, detector %v", seed, x.n, x.low, x.high, x.detector)
		require.NoError(t, x.judge(), "%s: %v", story, err)
		require.Equal(t, proc.Cause{Kind: proc.Exited, Code: banyan.ExitFenced}, x.ends[x.high], story)
		require.ErrorContains(t, err, fmt.Sprintf("rank %d ends itself: it counts as dead at rank", x.high), story)
		require.ErrorContains(t, err, fmt.Sprintf("rank %d and rank %d cannot reach each other", x.low, x.high), story)
		require.ErrorContains(t, err, "ulimit -n", story)
	}
}

// A rank need not give way to an unreachable one that has died since: the others report its death.
func TestPartedFromTheDead(t *testing.T) {
	for seed := uint64(1); seed <= ranktest.Seeds(20); seed++ {
		r := rand.New(rand.NewPCG(seed, 10))
		x := &parted{n: 3 + r.IntN(6), at: 500_000_000, detector: true, meet: true, killed: true}
		two := r.Perm(x.n)
		x.low, x.high = proc.ID(min(two[0], two[1])), proc.ID(max(two[0], two[1]))
		err := x.run(seed)
		story := fmt.Sprintf("seed %d: %d ranks, %d and %d parted: %v", seed, x.n, x.low, x.high, err)
		require.NoError(t, err, story)
		for rank, end := range x.ends {
			if rank != int(x.low) {
				require.Equal(t, proc.Departed, end.Kind, "rank %d: %s", rank, story)
				require.Len(t, x.groups[rank], x.n-1, story)
			}
		}
	}
}

// walledOff continues with the ranks with which it can agree.
func walledOff(w *banyan.World) error {
	c, err := w.Comm().Shrink()
	if err != nil {
		return err
	}
	for _, err = c.Agree(1); errors.Is(err, banyan.ErrProcFailed); _, err = c.Agree(1) {
		if c, err = c.Shrink(); err != nil {
			return err
		}
	}
	if c.Size() != w.Comm().Size()-1 {
		return fmt.Errorf("%d are left", c.Size())
	}
	return errors.Join(err, c.Barrier())
}

// Two of the real processes have no fabric in common, and both reach a third. The higher one ends,
// and reports the reason and the remedy.
func TestWalledOff(t *testing.T) {
	const each = `case $PMI_RANK in 0) BANYAN_FABRIC=shm;; 2) BANYAN_FABRIC=tcp;; *) BANYAN_FABRIC=shm,tcp;; esac;
		export BANYAN_FABRIC; exec "$0"`
	exe, err := os.Executable()
	require.NoError(t, err)
	for _, detect := range []string{"on", "off"} {
		var out bytes.Buffer
		res, err := launch.Run(t.Context(), launch.Spec{
			N: 3, Argv: []string{"/bin/sh", "-c", each, exe}, Stdout: &out, Stderr: &out, OnFailure: launch.Continue,
			Env: append(os.Environ(), ranktest.RoleEnv+"=walled off", "BANYAN_DETECT="+detect),
		})
		require.NoError(t, err, "%s", out.String())
		require.Equal(t, banyan.ExitFenced, res.Ends[2].Code, "%v\n%s", res.Ends, out.String())
		for _, end := range res.Ends[:2] {
			require.False(t, end.Failed(), "%v\n%s", res.Ends, out.String())
		}
		require.Contains(t, out.String(),
			"banyan: rank 2 ends itself: rank 0 and rank 2 cannot reach each other (no fabric joins")
		require.Contains(t, out.String(), "--fabric")
		t.Log(out.String())
	}
}
