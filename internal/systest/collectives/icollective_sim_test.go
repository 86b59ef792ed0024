package collectives

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// affine folds maps x -> a*x + b, which is associative and not commutative.
func affine(acc, in []byte) {
	for ; len(acc) >= 8; acc, in = acc[8:], in[8:] {
		a, b := binary.LittleEndian.Uint32(acc), binary.LittleEndian.Uint32(acc[4:])
		c, d := binary.LittleEndian.Uint32(in), binary.LittleEndian.Uint32(in[4:])
		binary.LittleEndian.PutUint32(acc, a*c)
		binary.LittleEndian.PutUint32(acc[4:], a*d+b)
	}
}

// blockOf is what a rank gives to the operation with a number.
func blockOf(number, rank, size int) []byte { return ranktest.Pattern(1000*number+rank, size) }

// folding is the operation of a reduction with a number: one that is not commutative, or one that is.
func folding(number int) (op func(acc, in []byte), order banyan.Order) {
	if number%2 == 0 {
		return affine, banyan.InOrder
	}
	return xor, banyan.AnyOrder
}

// foldedOf is what the operation makes of the blocks of some ranks.
func foldedOf(number, size int, ranks []int) []byte {
	op, _ := folding(number)
	acc := blockOf(number, ranks[0], size)
	for _, rank := range ranks[1:] {
		op(acc, blockOf(number, rank, size))
	}
	return acc
}

// ranksTo are the ranks 0 … n-1 without some of them.
func ranksTo(n int, without ...int) (ranks []int) {
	for rank := range n {
		if !slices.Contains(without, rank) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// issue is one operation of a random program: the same at all ranks.
type issue struct {
	kind, number, size, root int
	blocks                   bool // the call blocks
}

const issueKinds = 7

func drawIssue(r *rand.Rand, number, n int) issue {
	return issue{
		kind: r.IntN(issueKinds), number: number, root: r.IntN(n), blocks: r.IntN(4) == 0,
		size: 8 * []int{0, 1, 5, 40, 1100, 2500}[r.IntN(6)],
	}
}

func (o issue) String() string {
	return fmt.Sprintf("%s of %d bytes, root %d, number %d, blocks: %v", []string{
		"barrier", "bcast", "reduce", "allreduce", "gather", "scatter", "allgather"}[o.kind], o.size, o.root, o.number, o.blocks)
}

// done gives a request that has ended.
func done(err error) (banyan.Request, error) { return banyan.Request{}, err }

// begin begins the operation among the living, and gives the buffer that it writes and what that holds at the end; want is nil where nothing is promised.
func (o issue) begin(c *banyan.Comm, dead ...int) (q banyan.Request, got, want []byte, err error) {
	n, me := c.Size(), c.Rank()
	living := ranksTo(n, dead...)
	mine := blockOf(o.number, me, o.size)
	all := bytes.Repeat([]byte{0xee}, o.size*n)
	gathered := slices.Clone(all)
	for _, rank := range living {
		copy(gathered[rank*o.size:], blockOf(o.number, rank, o.size))
	}
	op, order := folding(o.number)
	rootLives := slices.Contains(living, o.root)
	switch o.kind {
	case 0:
		if o.blocks {
			q, err = done(c.Barrier())
		} else {
			q = c.IBarrier()
		}
	case 1:
		got, want = mine, slices.Clone(mine)
		if rootLives {
			want = blockOf(o.number, o.root, o.size)
		}
		if o.blocks {
			q, err = done(c.Bcast(got, o.root))
		} else {
			q = c.IBcast(got, o.root)
		}
	case 2:
		if got = mine; me == o.root {
			want = foldedOf(o.number, o.size, living)
		}
		if o.blocks {
			q, err = done(c.ReduceBytes(got, op, o.root, order))
		} else {
			q = c.IReduceBytes(got, op, o.root, order)
		}
	case 3:
		got, want = mine, foldedOf(o.number, o.size, living)
		if o.blocks {
			q, err = done(c.AllreduceBytes(got, op, order))
		} else {
			q = c.IAllreduceBytes(got, op, order)
		}
	case 4:
		if me != o.root {
			all = nil
		} else {
			got, want = all, gathered
		}
		if o.blocks {
			q, err = done(c.GatherBytes(mine, all, o.root))
		} else {
			q = c.IGatherBytes(mine, all, o.root)
		}
	case 5:
		from := []byte(nil)
		if me == o.root {
			from = slices.Clone(gathered)
		}
		got, want = make([]byte, o.size), make([]byte, o.size)
		if rootLives {
			want = mine
		}
		if o.blocks {
			q, err = done(c.ScatterBytes(from, got, o.root))
		} else {
			q = c.IScatterBytes(from, got, o.root)
		}
	default:
		got, want = all, gathered
		if o.blocks {
			q, err = done(c.AllgatherBytes(mine, all))
		} else {
			q = c.IAllgatherBytes(mine, all)
		}
	}
	return q, got, want, err
}

// underWay is an operation that has been begun.
type underWay struct {
	issue
	q         banyan.Request
	got, want []byte
}

func (u *underWay) check(err error) error {
	if err == nil && u.want != nil && !bytes.Equal(u.got, u.want) {
		err = errors.New("wrong result")
	}
	if err != nil {
		return fmt.Errorf("%v: %w", u.issue, err)
	}
	return nil
}

// interleave has several operations under way, those that block and messages between them, and waits for them in an order of this rank's own.
func interleave(c *banyan.Comm, seed uint64, ops int, dead ...int) error {
	all := rand.New(rand.NewPCG(seed, 7))                    // the same at all
	own := rand.New(rand.NewPCG(seed, 100+uint64(c.Rank()))) // of this rank
	var open []underWay
	for number := range ops {
		u := underWay{issue: drawIssue(all, number, c.Size())}
		var err error
		u.q, u.got, u.want, err = u.begin(c, dead...)
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
	_, err := c.Sendrecv(blockOf(number, c.Rank(), 9), (c.Rank()+1)%n, number, in, from, number)
	if err == nil && !bytes.Equal(in, blockOf(number, from, 9)) {
		err = errors.New("wrong message")
	}
	return err
}

// endOne waits for one of them, in one of the ways to wait.
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

// onTrees chooses by a number the trees of a communicator.
func onTrees(c *banyan.Comm, number uint64) error {
	designs := []banyan.Design{banyan.Rebalance, banyan.LookupAvoiding, banyan.Reroute}
	trees := []string{"auto", "binomial", "knomial:4", "chain", "flat", "node", "binary"}
	return errors.Join(c.SetDesign(designs[number%3]), c.SetTree(trees[number%7]))
}

// All kinds and trees, 1 … 17 ranks, several under way, mixed with those that block and with messages, waited for in any order.
func TestBegunCollectives(t *testing.T) {
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

// Over a chain, and over a binomial tree of ranks on nodes of their own, a long broadcast takes the virtual time in which a link carries what goes over it,
// three messages at the root of the binomial tree, and not that of a message for each rank on the way; so does a reduction; begun or not.
func TestLongGoesInSegments(t *testing.T) {
	for _, tree := range []string{"chain", "binomial", "auto"} {
		require.NoError(t, banyan.Simulate(8, banyan.Simulation{Configure: oneEach}, func(w *banyan.World) error {
			c, took := w.Comm(), [4][2]float64{}
			if err := c.SetTree(tree); err != nil {
				return err
			}
			o, buf := oracle{c: c}, make([]byte, 2<<20)
			for i := range 4 { // the first of each makes connections
				o.begun = i%2 == 1
				for what, op := range []func() error{
					func() error { return onceAround(c, buf) },
					func() error {
						return o.do(func() error { return c.Bcast(buf, 0) }, func() banyan.Request { return c.IBcast(buf, 0) })
					},
					func() error {
						return o.do(func() error { return banyan.Reduce(c, buf, banyan.Sum, 0, banyan.AnyOrder) },
							func() banyan.Request { return banyan.IReduce(c, buf, banyan.Sum, 0, banyan.AnyOrder) })
					},
					func() error {
						return o.do(func() error { return banyan.Allreduce(c, buf, banyan.Sum) },
							func() banyan.Request { return banyan.IAllreduce(c, buf, banyan.Sum) })
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
			for what, begun := range took[1:3] {
				if took := max(begun[0], begun[1]); took > 3.25*message {
					return fmt.Errorf("rank %d: operation %d takes %v s, a message %v", c.Rank(), what, took, message)
				}
			}
			if all := took[3]; all[1] > 1.25*all[0] { // one of few steps waits in each for both ways
				return fmt.Errorf("rank %d: an allreduce takes %v s, and %v if it is begun", c.Rank(), all[0], all[1])
			}
			if c.Rank() == 0 {
				t.Logf("%s: message %v s; blocking and begun: bcast %v, reduce %v, allreduce %v s", tree, message, took[1], took[2], took[3])
			}
			return nil
		}), tree)
	}
}

// The root has begun many long broadcasts of which the next rank on the way takes one after the other: the segments of one do not wait behind those of
// the others for which there is no receive yet.
func TestManyLongBroadcastsBegun(t *testing.T) {
	require.NoError(t, banyan.Simulate(3, banyan.Simulation{Configure: oneEach}, func(w *banyan.World) error {
		c, buf := w.Comm(), make([]byte, 6<<17+1) // more segments than go at once
		var begun []banyan.Request
		for range 2000 {
			q := c.IBcast(buf, 0)
			if c.Rank() == 0 {
				begun = append(begun, q)
			} else if _, err := q.Wait(); err != nil {
				return err
			}
		}
		return banyan.WaitAll(begun)
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
