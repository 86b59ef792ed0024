package control

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// agreementJob is a job whose processes agree repeatedly while some fail.
type agreementJob struct {
	n, rounds int
	uniform   bool
	seed      uint64
	kills     map[proc.ID]fabric.Time
	got       [][]*agree.Decision
	wrong     error
}

// all is the group of every process of a job.
type all int

func (n all) Size() int             { return int(n) }
func (n all) Proc(rank int) proc.ID { return proc.ID(rank) }
func (n all) Rank(p proc.ID) int {
	if int(p) < int(n) {
		return int(p)
	}
	return -1
}

func (x *agreementJob) run() error {
	x.got = make([][]*agree.Decision, x.n)
	cfg := sim.DefaultConfig(x.n)
	cfg.Seed = x.seed
	s, err := sim.New(cfg)
	if err != nil {
		return err
	}
	for id := range proc.ID(x.n) {
		if err := s.Spawn(id, x.body); err != nil {
			return err
		}
	}
	for id, at := range x.kills {
		if err := s.Kill(id, at); err != nil {
			return err
		}
	}
	if err := s.Run(); err != nil {
		return err
	}
	return x.wrong
}

func or(acc, in []byte) {
	for i := range acc {
		acc[i] |= in[i]
	}
}

func (x *agreementJob) body(p *sim.Proc) {
	e := progress.New(progress.Config{
		Self: p.ID(), Host: p.Host(), Others: []fabric.Provider{p.Provider()},
		Resolve: func(_ string, peer proc.ID) ([]byte, error) { return sim.Address(peer), nil },
	})
	out := NewOutbox(e, nil)
	driver := Start(Config{
		Engine: e,
		Detect: detect.Config{Self: p.ID(), Procs: x.n, Period: DefaultPeriod, Timeout: DefaultTimeout, Seed: x.seed},
		Die:    func(why error) { x.wrong = fmt.Errorf("%v ends itself: %w", p.ID(), why) },
	})
	a := StartAgreements(e, agree.Binomial, out, nil)
	line := agree.GroupKey{Context: 1}
	e.Lock()
	if err := a.Open(line, all(x.n)); err != nil {
		x.wrong = err
	}
	for range x.rounds {
		var done progress.Completion
		value := make([]byte, 8*((x.n+63)/64))
		binary.LittleEndian.PutUint64(value[p.ID()/64*8:], 1<<(p.ID()%64))
		if err := a.Propose(line, agree.Proposal{Value: value, Op: or, Uniform: x.uniform,
			Then: func(d *agree.Decision) {
				for _, g := range d.Ended {
					if !e.View().Failed(g.Proc) {
						x.wrong = fmt.Errorf("%v does not know of %v when it decides", p.ID(), g.Proc)
					}
				}
				kept := *d
				kept.Value = slices.Clone(d.Value)
				x.got[p.ID()] = append(x.got[p.ID()], &kept)
				done.Finish()
			}}); err != nil {
			x.wrong = err
		}
		e.Wait(&done)
	}
	// A process that has decided answers the others.
	var over progress.Completion
	e.After(3*DefaultTimeout, over.Finish)
	e.Wait(&over)
	a.Stop()
	out.Stop()
	e.Unlock()
	driver.Stop()
	e.Depart()
	_ = e.Close()
}

// Agreements of simulated processes that fail at random times: all living ones decide each, and
// alike.
func TestAgreementsUnderKills(t *testing.T) {
	for seed := uint64(1); seed <= 150; seed++ {
		rng := rand.New(rand.NewPCG(seed, 3))
		x := &agreementJob{n: 2 + rng.IntN(15), rounds: 1 + rng.IntN(4), uniform: seed%4 == 0, seed: seed,
			kills: map[proc.ID]fabric.Time{}}
		for range rng.IntN(x.n) {
			x.kills[proc.ID(rng.IntN(x.n))] = fabric.Time(rng.Int64N(60_000))
		}
		require.NoError(t, x.run(), "seed %d", seed)
		for round := range x.rounds {
			var first *agree.Decision
			for id, got := range x.got {
				if _, killed := x.kills[proc.ID(id)]; killed {
					continue
				}
				require.Len(t, got, x.rounds, "seed %d: %v", seed, id)
				d := got[round]
				if first == nil {
					first = d
				}
				require.Equal(t, first, d, "seed %d: process %d, agreement %d", seed, id, round)
				for other := range x.n {
					ended := slices.ContainsFunc(d.Ended, func(g agree.Ended) bool { return g.Proc == proc.ID(other) })
					require.True(t, ended || d.Value[other/64*8+other%64/8]>>(other%8)&1 != 0,
						"seed %d: %d has no part", seed, other)
				}
			}
		}
	}
}
