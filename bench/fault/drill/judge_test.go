package drill

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// lone is a rank of n without a world.
func lone(me, n int) *rank {
	return &rank{p: &plan{n: n}, me: me, trace: memoryTrace(n), blamed: map[int]bool{}, out: io.Discard}
}

// simulated carries out a test's program at each of n ranks; its error is a finding.
func simulated(t *testing.T, n int, program func(r *rank) error) error {
	t.Helper()
	return banyan.Simulate(n, banyan.Simulation{}, func(w *banyan.World) error {
		r := lone(w.Comm().Rank(), n)
		r.w, r.c = w, w.Comm()
		return program(r)
	})
}

// A collective that leaves a block of its result as it was, or that swaps segments, is a finding.
func TestWrongResultsOfCollectivesAreFound(t *testing.T) {
	const n, elements = 3, 4
	s := &shared{elements: elements, rounds: 1}
	found := 0
	for k := bcast; k < nonblockingCollective; k++ {
		s.kind = k
		for me := range n {
			judge := func(spoil func(u *part, before []int64)) error {
				r := lone(me, n)
				u := r.part(s, k)
				before := slices.Clone(u.got)
				copy(u.got, u.want)
				spoil(u, before)
				return r.completed(s, 0, u, nil)
			}
			require.NoError(t, judge(func(*part, []int64) {}), k)
			u := lone(me, n).part(s, k)
			if len(u.got) == 0 {
				continue
			}
			require.NotContains(t, u.want, int64(0), k)
			require.NotContains(t, u.want, int64(-1), k)
			require.Error(t, judge(func(u *part, _ []int64) { // two segments swapped
				u.got[0], u.got[1], u.got[2], u.got[3] = u.got[2], u.got[3], u.got[0], u.got[1]
			}), "%v at rank %d", k, me)
			if slices.Equal(u.got, u.want) {
				continue // nothing comes to the root of a broadcast, or the first rank of a scan
			}
			found++
			require.Error(t, judge(func(u *part, before []int64) { // the block of rank 0 untouched
				copy(u.got[:elements], before)
			}), "%v at rank %d", k, me)
		}
	}
	require.Positive(t, found)
}

// Uniform operations with wrong results are findings: here agreed failures are wrong.
func TestWrongResultsOfUniformOperationsAreFound(t *testing.T) {
	outcome := func(op uniformOp, root int, agreed uint64) error {
		return simulated(t, 3, func(r *rank) error {
			d, err := r.c.Dup()
			if err != nil {
				return err
			}
			if err := d.SetUniformity(banyan.UniformCollectives); err != nil {
				return err
			}
			_, err = r.oneUniform(d, op, root, agreed)
			return errors.Join(err, d.Free())
		})
	}
	for op := range allBridge {
		require.NoError(t, outcome(op, 1, 0), op)
	}
	require.ErrorContains(t, outcome(allAllreduce, 0, 1<<2), "gave")
	require.ErrorContains(t, outcome(allBcast, 2, 1<<2), "gave")
	require.ErrorContains(t, outcome(allSplit, 0, 1<<2), "has 2 members, want the ranks [0]")

	r := lone(1, 3)
	require.Equal(t, series(2, 1, 2), r.uniformResult(allAllreduce, 0, 0, errHang), "an error leaves the buffer")
	require.Equal(t, series(6, 3, 2), r.uniformResult(allAllreduce, 0, 0, nil))
	require.Equal(t, series(4, 2, 2), r.uniformResult(allAllreduce, 0, 1<<1, nil))
	require.Equal(t, series(3, 1, 2), r.uniformResult(allBcast, 2, 1, nil))

	bridge := func(n int) error {
		return simulated(t, 3, func(r *rank) error {
			r.p.n = n
			return r.bridge(r.c)
		})
	}
	require.NoError(t, bridge(3))
	require.ErrorContains(t, bridge(2), "has 3 members, want the ranks [1 0]")
}

// Data of a rank that may die are compared where a wait for all has succeeded.
func TestWrongDataOfADoomedSenderAreFound(t *testing.T) {
	err := simulated(t, 2, func(r *rank) error {
		r.p.doomed = map[int]doom{0: {aim: noKind}}
		m := &transfer{src: 0, dst: 1, tag: firstTag, size: 8, seed: 1, send: isend, recv: irecv}
		if r.me == 1 {
			return r.awaitAll(waitAll, []under{r.post(m, &phase{})}, nil)
		}
		m.seed = 2
		return r.c.Send(m.fill(), m.dst, m.tag)
	})
	require.ErrorContains(t, err, "8 bytes of ")
}

// An error of a communicator of two is translated if it names the other one alone. One that names no
// rank is no excuse.
func TestErrorsThatNameOtherRanksAreFound(t *testing.T) {
	r := lone(0, 4)
	r.p.doomed = map[int]doom{3: {aim: noKind}}
	for _, c := range []struct {
		ranks []int
		good  bool
	}{{[]int{0}, true}, {[]int{3}, false}, {nil, false}, {[]int{0, 1}, false}} {
		err := r.excuse(renamed(&banyan.ProcFailedError{Ranks: c.ranks}, 0, 3), 3)
		require.Equal(t, c.good, err == nil, "%v: %v", c.ranks, err)
	}
	require.Equal(t, errHang, renamed(errHang, 0, 3))
	require.NoError(t, renamed(nil, 0, 3))
	require.NoError(t, r.excuseAny(&banyan.ProcFailedError{Ranks: []int{3}}))
	require.Error(t, r.excuseAny(&banyan.ProcFailedError{}))
}

// The runs that look for the smallest plan that fails are not counted.
func TestAttemptsAreNoRuns(t *testing.T) {
	d := &Driver{Config: Config{Min: 2, Max: 2, Fabrics: []string{"shm"}, Profiles: []banyan.Profile{banyan.ULFM}}}
	p := newPlan(script{Config: d.Config, Seed: 3, Aim: noKind})
	clear(p.doomed)
	require.NoError(t, d.simulateSmallest(p))
	require.Equal(t, 1, d.Report.Runs)
	p.phases[0].shared = shared{kind: bcast, rounds: 1, root: p.n, elements: 1}
	require.ErrorContains(t, d.simulateSmallest(p), "the smallest plan that fails: ")
	require.Equal(t, 1, d.Report.Runs)
}

// Ranks that sleep do not hang: one may sleep twice.
func TestPatienceIncludesSleep(t *testing.T) {
	d := &Driver{Patience: time.Second}
	p := &plan{naps: []nap{{rank: 1, at: 2, long: time.Minute}, {rank: 1, at: 2, long: time.Hour}}}
	require.Equal(t, time.Second+p.nap(1, 2), d.patience(p))
	d.Patience = 0
	require.Equal(t, usualPatience, d.patience(&plan{}))
}
