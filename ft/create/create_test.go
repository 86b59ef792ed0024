package create

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// rank is one rank of a simulated job.
type rank struct {
	*job.Job
	Parent // of the world's communicator
}

// simulate runs body as each of n ranks.
func simulate(t *testing.T, n int, faults func(*sim.Sim) error, body func(rank) error) {
	t.Helper()
	require.NoError(t, job.Simulate(n, job.Simulation{Faults: faults}, new(job.Options), func(j *job.Job) error {
		collectives := &coll.Comm{Trees: coll.Trees{Choice: j.Trees, World: j.Coll}}
		err := body(rank{j, Parent{Self: j.Self, Engine: j.P2P, Core: j.World, Coll: collectives, Repair: j.Repair}})
		if err != nil {
			return err
		}
		return j.Finalize(func() error { return nil }, func() {})
	}))
}

// of is the parent of further communicators.
func (r rank) of(core *p2p.Comm) Parent {
	p := r.Parent
	p.Core, p.Coll = core, &coll.Comm{Trees: coll.Trees{Choice: p.Coll.Choice, World: p.Coll.World}}
	return p
}

// bridge joins the even and the odd ranks by an intercommunicator.
func (r rank) bridge(p Parent) (*p2p.Comm, error) {
	odd := p.Core.Rank() % 2
	side, err := p.Split(odd, 0)
	if err != nil {
		return nil, err
	}
	return r.of(side).Inter(0, &p, 1-odd, 3)
}

// A collective needs both sides of an intercommunicator. The error names the failed ranks of each side
// by the rank that they have there.
func TestCollectiveNamesFailedRanksOfBothSides(t *testing.T) {
	kill := func(s *sim.Sim) error { return s.Kill(3, fabric.Time(time.Millisecond)) }
	simulate(t, 4, kill, func(r rank) error {
		inter, err := r.bridge(r.Parent)
		if err != nil {
			return err
		}
		if _, err := p2p.Recv[p2p.Aware](r.World, make([]byte, 8), 3, 1); !errors.Is(err, ft.ErrProcFailed) {
			return fmt.Errorf("rank 3 should be dead: %w", err)
		}
		var failed *ft.ProcFailedError
		if err := inter.CheckMembers(); !errors.As(err, &failed) {
			return fmt.Errorf("a collective without rank 3: %w", err)
		}
		remote, local := []int{1}, []int(nil)
		if r.Rank() == 1 {
			remote, local = local, remote
		}
		if !slices.Equal(failed.Ranks, remote) || !slices.Equal(failed.Local, local) {
			return fmt.Errorf("rank %d: %w: remote %v, local %v", r.Rank(), failed, failed.Ranks, failed.Local)
		}
		if all := inter.Failed(); !slices.Equal(all, []proc.ID{3}) {
			return fmt.Errorf("rank %d: failed: %v", r.Rank(), all)
		}
		return nil
	})
}

// A leader that announces a group of more processes than there can be is refused by the ranks of its
// own side too, before they take memory for it.
func TestOfferOfAbsurdLength(t *testing.T) {
	for _, length := range []uint64{0, 6, 1 << 40, 1 << 63} {
		simulate(t, 2, nil, func(r rank) error {
			if r.Rank() == 0 {
				b := binary.LittleEndian.AppendUint64(nil, length)
				return r.bcast(append(b, make([]byte, meetLen-8+verdictLen)...), 0)
			}
			if _, err := r.Inter(0, nil, 0, 9); !errors.Is(err, ft.ErrArgument) {
				return fmt.Errorf("%d bytes: %w", length, err)
			}
			return nil
		})
	}
}
