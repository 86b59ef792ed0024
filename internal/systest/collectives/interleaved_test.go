package collectives

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// issue is one operation of a random program: the same at all ranks.
type issue struct {
	ranktest.Collective
	blocks bool // the call blocks
}

func drawIssue(r *rand.Rand, number, n int) issue {
	return issue{ranktest.Collective{
		Kind: ranktest.CollectiveKind(r.IntN(int(ranktest.CollectiveKinds))), Number: number, Root: r.IntN(n),
		Size: []int{0, 1, 5, 40, 1100, 2500}[r.IntN(6)], Typed: r.IntN(2) == 0,
	}, r.IntN(4) == 0}
}

// underWay is an issue that has started.
type underWay struct {
	issue
	q         banyan.Request
	got, want []uint64
}

// start starts an operation, or makes the blocking call.
func start(o issue, c *banyan.Comm, failed ...int) (underWay, error) {
	u := underWay{issue: o}
	u.got, u.want = o.Buffers(c, failed...)
	if o.blocks {
		return u, o.Call(c, u.got)
	}
	u.q = o.Start(c, u.got)
	return u, nil
}

func (u *underWay) check(err error) error {
	if err == nil && u.want != nil && !slices.Equal(u.got, u.want) {
		err = errors.New("wrong result")
	}
	if err != nil {
		return fmt.Errorf("%v, blocking %v: %w", u.Collective, u.blocks, err)
	}
	return nil
}

// interleave has several operations under way, with blocking calls and messages between them, and
// waits for them in an order of this rank's own.
func interleave(c *banyan.Comm, seed uint64, ops int, dead ...int) error {
	all := rand.New(rand.NewPCG(seed, 7))                    // the same at all ranks
	own := rand.New(rand.NewPCG(seed, 100+uint64(c.Rank()))) // of this rank
	var open []underWay
	for number := range ops {
		u, err := start(drawIssue(all, number, c.Size()), c, dead...)
		if err != nil {
			return u.check(err)
		}
		open = append(open, u)
		if all.IntN(3) == 0 && dead == nil {
			if err := round(c, number); err != nil {
				return err
			}
		}
		for len(open) > 0 && own.IntN(3) == 0 {
			if err := endOne(&open, own); err != nil {
				return err
			}
		}
	}
	for len(open) > 0 {
		if err := endOne(&open, own); err != nil {
			return err
		}
	}
	return nil
}

// round sends a message to the next rank.
func round(c *banyan.Comm, number int) error {
	n, in := c.Size(), make([]byte, 9)
	from := (c.Rank() + n - 1) % n
	_, err := c.Sendrecv(ranktest.Pattern(number+c.Rank(), 9), (c.Rank()+1)%n, number, in, from, number)
	if err == nil && !bytes.Equal(in, ranktest.Pattern(number+from, 9)) {
		err = errors.New("wrong message")
	}
	return err
}

// endOne waits for one operation, in one of the ways to wait.
func endOne(open *[]underWay, r *rand.Rand) error {
	i := r.IntN(len(*open))
	u := (*open)[i]
	var err error
	switch r.IntN(3) {
	case 0:
		_, err = u.q.Wait()
	case 1:
		for done := false; !done && err == nil; {
			_, done, err = u.q.Test()
		}
	default:
		qs := make([]banyan.Request, len(*open))
		for j := range qs {
			qs[j] = (*open)[j].q
		}
		var at int
		if at, _, err = banyan.WaitAny(qs); at >= 0 {
			i, u = at, (*open)[at]
		}
	}
	*open = slices.Delete(*open, i, i+1)
	return u.check(err)
}

// onTrees sets the design and the tree of a communicator by a number.
func onTrees(c *banyan.Comm, number uint64) error {
	designs := []banyan.Design{banyan.Rebalance, banyan.LookupAvoiding, banyan.Reroute}
	trees := []banyan.Tree{banyan.AutoTree, banyan.BinomialTree, banyan.KNomialTree(4), banyan.ChainTree, banyan.FlatTree, banyan.NodeTree, banyan.BinaryTree}
	return errors.Join(c.SetDesign(designs[number%3]), c.SetTree(trees[number%7]))
}

// All kinds and trees, 1 to 17 ranks, several operations under way, mixed with blocking calls and
// messages, and completed in any order.
func TestNonblockingCollectives(t *testing.T) {
	for n := 1; n <= 17; n += ranktest.Scaled(1, 5) {
		for seed := range uint64(ranktest.Scaled(2, 1)) {
			require.NoError(t, banyan.Simulate(n, banyan.Simulation{Seed: seed, Configure: func(c *sim.Config) {
				c.Topology.ProcsPerNode = 1 + int(seed%4)
			}}, func(w *banyan.World) error {
				if err := onTrees(w.Comm(), uint64(n)+17*seed); err != nil {
					return err
				}
				return interleave(w.Comm(), seed*100+uint64(n), 12)
			}), "%d ranks, seed %d", n, seed)
		}
	}
}

// Over a chain, and over a binomial tree of ranks on separate nodes, a long broadcast takes the
// virtual time of its own traffic on a link: three messages at the root of the binomial tree, not
// one message per rank on the path. So does a reduction, blocking or not.
func TestLongGoesInSegments(t *testing.T) {
	for _, tree := range []banyan.Tree{banyan.ChainTree, banyan.BinomialTree, banyan.AutoTree} {
		require.NoError(t, banyan.Simulate(8, banyan.Simulation{Configure: oneEach}, func(w *banyan.World) error {
			c, took := w.Comm(), [4][2]float64{}
			if err := c.SetTree(tree); err != nil {
				return err
			}
			buf := make([]byte, 2<<20)
			for i := range 4 { // the first of each connects
				nonblocking := i%2 == 1
				for what, op := range []func() error{
					func() error { return onceAround(c, buf) },
					func() error {
						return do(nonblocking, func() error { return c.Bcast(buf, 0) },
							func() banyan.Request { return c.Ibcast(buf, 0) })
					},
					func() error {
						return do(nonblocking,
							func() error { return banyan.Reduce(c, buf, buf, banyan.Sum, 0, banyan.AnyOrder) },
							func() banyan.Request { return banyan.Ireduce(c, buf, buf, banyan.Sum, 0, banyan.AnyOrder) })
					},
					func() error {
						return do(nonblocking, func() error { return banyan.Allreduce(c, buf, buf, banyan.Sum) },
							func() banyan.Request { return banyan.Iallreduce(c, buf, buf, banyan.Sum) })
					},
				} {
					if err := c.Barrier(); err != nil {
						return err
					}
					from := w.Now()
					if err := errors.Join(op(), c.Barrier()); err != nil {
						return err
					}
					took[what][i%2] = (w.Now() - from).Seconds()
				}
			}
			message := took[0][0] / 2
			for what, pair := range took[1:3] {
				if took := max(pair[0], pair[1]); took > 3.25*message {
					return fmt.Errorf("rank %d: operation %d takes %v s, a message %v", c.Rank(), what, took, message)
				}
			}
			if all := took[3]; all[1] > 1.25*all[0] { // an allreduce of few steps waits in each for both directions
				return fmt.Errorf("rank %d: an allreduce takes %v s, non-blocking %v",
					c.Rank(), all[0], all[1])
			}
			if c.Rank() == 0 {
				t.Logf("%s: message %v s; blocking and non-blocking: bcast %v, reduce %v, allreduce %v s",
					tree, message,
					took[1], took[2], took[3])
			}
			return nil
		}), tree)
	}
}

// The root starts many long broadcasts, and the next rank on the path receives one after the other.
// The segments of one do not wait behind those of others that have no receive yet.
func TestManyLongNonblockingBroadcasts(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 300
	}
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{Configure: oneEach}, func(w *banyan.World) error {
		c, buf := w.Comm(), make([]byte, 6<<17+1) // more segments than are under way at once
		var started []banyan.Request
		for range rounds {
			q := c.Ibcast(buf, 0)
			if c.Rank() == 0 {
				started = append(started, q)
			} else if _, err := q.Wait(); err != nil {
				return err
			}
		}
		return banyan.WaitAll(started)
	}))
}

// onceAround sends a message to rank 1 and back.
func onceAround(c *banyan.Comm, buf []byte) error {
	for from := range 2 {
		var err error
		switch c.Rank() {
		case from:
			err = c.Send(buf, 1-from, 1)
		case 1 - from:
			_, err = c.Recv(buf, from, 1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endedOp is an operation that has ended, with the contents of its buffer at that moment.
type endedOp struct {
	underWay
	held []uint64
	err  error
}

// endure has several operations under way while ranks die. Each ends with success and the right
// result, or with ErrProcFailed.
func endure(c *banyan.Comm, seed uint64, ops int) (out []endedOp, err error) {
	all := rand.New(rand.NewPCG(seed, 7))
	own := rand.New(rand.NewPCG(seed, 100+uint64(c.Rank())))
	var open []endedOp
	for number := range ops {
		o := drawIssue(all, number, c.Size())
		o.blocks = false
		u, _ := start(o, c) // only blocking calls fail
		open = append(open, endedOp{underWay: u})
	}
	for len(open) > 0 {
		i := own.IntN(len(open))
		u := open[i]
		open = slices.Delete(open, i, i+1)
		if _, u.err = u.q.Wait(); u.err != nil && !errors.Is(u.err, banyan.ErrProcFailed) {
			return nil, fmt.Errorf("%v: %w", u.issue, u.err)
		}
		if err := u.check(nil); u.err == nil && err != nil {
			return nil, err
		}
		u.held = slices.Clone(u.got)
		out = append(out, u)
	}
	return out, nil
}

// touched is the error of a buffer that changed after its operation ended.
func touched(all []endedOp) error {
	for _, u := range all {
		if !slices.Equal(u.held, u.got) {
			return fmt.Errorf("%v: the buffer has changed since it ended: %w", u.issue, u.err)
		}
	}
	return nil
}

// until runs operations of all kinds among the living ranks, with validates between them, until all
// succeed.
func until(c *banyan.Comm, seed uint64, ops int) (validates int, err error) {
	for ; ; validates++ {
		failed, err := c.Validate()
		if err != nil {
			return 0, err
		}
		dead, err := failed.Translate(ranktest.Iota(failed.Size()), c.Group())
		if err != nil {
			return 0, err
		}
		if q := c.Ibarrier(); validates > 20 {
			_, err := q.Wait()
			return 0, fmt.Errorf("does not come to an end: %v, %w", dead, err)
		}
		wrong := interleave(c, seed+uint64(validates), ops, append(dead, -1)...)
		if wrong != nil && !errors.Is(wrong, banyan.ErrProcFailed) {
			return 0, wrong
		}
		flag := uint64(1)
		if wrong != nil {
			flag = 0
		}
		if flag, err = c.Agree(flag); err == nil && flag == 1 {
			return validates, nil
		}
	}
}

// Each operation ends at each rank with success or ErrProcFailed, and its buffer does not change
// afterwards. After a validate all operations work among the remaining ranks.
func TestNonblockingCollectivesOutliveDeaths(t *testing.T) {
	failed, succeeded, more := 0, 0, 0
	for seed := range ranktest.Seeds(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		n := 2 + r.IntN(8)
		require.NoError(t, banyan.Simulate(n, banyan.Simulation{
			Seed:    seed,
			Options: []banyan.Option{banyan.WithDetection(200*time.Millisecond, time.Second)},
			Configure: func(c *sim.Config) {
				c.Topology.ProcsPerNode = 1 + r.IntN(3)
				c.Get = seed%2 == 0
				if seed%3 == 1 {
					c.Fetch, c.MoveLoss = true, 0.05
				}
				c.MaxTime = fabric.Time(5 * time.Minute)
			},
			Faults: func(s *sim.Sim) (err error) {
				for range 1 + r.IntN(2) {
					err = errors.Join(err, s.KillAtStep(proc.ID(r.IntN(n)), 1+r.Uint64N(8<<r.IntN(9))))
				}
				return err
			},
		}, func(w *banyan.World) error {
			c := w.Comm()
			if err := onTrees(c, seed); err != nil {
				return err
			}
			out, err := endure(c, seed, 1+int(seed%6))
			if err != nil {
				return err
			}
			for _, u := range out {
				if u.err != nil {
					failed++
				} else {
					succeeded++
				}
			}
			validates, err := until(c, seed, 5)
			more += validates
			for w.Now() < 20*time.Second { // so that no rank is seen to depart that could have informed others
				w.Sleep(50 * time.Millisecond)
				_, _, _ = c.Iprobe(c.Rank(), 1)
			}
			return errors.Join(err, touched(out))
		}), "seed %d, %d ranks", seed, n)
	}
	t.Logf("%d ended with an error, %d with success; %d more validates", failed, succeeded, more)
	ranktest.Occurred(t, min(failed, succeeded), "not both outcomes")
}
