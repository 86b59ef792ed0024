package drill

import (
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// shared is the collective of a phase: one kind, several times in a row or at once.
type shared struct {
	kind        Kind // noKind: none
	nonblocking Kind // the kind of a nonblockingCollective
	rounds      int
	root        int
	elements    int // of a buffer, or of a block
	design      banyan.Design
	tree        banyan.Tree
}

// maxRounds bounds shared.rounds. The second collective of a communicator may be the first in shared
// memory.
const maxRounds = 5

var (
	designs = []banyan.Design{banyan.Rebalance, banyan.LookupAvoiding, banyan.Reroute, banyan.Unaware}
	trees   = []banyan.Tree{banyan.AutoTree, banyan.AutoTree, banyan.AutoTree, banyan.BinomialTree, banyan.KNomialTree(3),
		banyan.BinaryTree, banyan.ChainTree, banyan.FlatTree, banyan.NodeTree}
)

// collectives does the phase's collectives on a communicator of its own, so that a failed one leaves
// nothing for the next phase.
func (r *rank) collectives(s *shared) error {
	if s.kind == noKind {
		return nil
	}
	c, err := r.dup(r.c)
	if err != nil {
		return err
	}
	if err := errors.Join(c.SetDesign(s.design), c.SetTree(s.tree)); err != nil {
		return err
	}
	r.step("%d times %v of %d elements, root %d, %v %s", s.rounds, s.kind, s.elements, s.root, s.design, s.tree)
	for round := 0; round < s.rounds && err == nil; round++ {
		if s.kind == nonblockingCollective {
			err = r.atOnce(c, s)
			break
		}
		u := r.part(s, s.kind)
		r.begin(s.kind)
		err = r.completed(s, round, u, u.blocking(c))
	}
	return errors.Join(err, c.Free())
}

// atOnce has all rounds under way at once.
func (r *rank) atOnce(c *banyan.Comm, s *shared) error {
	var parts []*part
	var reqs []banyan.Request
	for range s.rounds {
		u := r.part(s, s.nonblocking)
		r.begin(s.kind)
		parts, reqs = append(parts, u), append(reqs, u.starts(c))
	}
	var all error
	for round, q := range reqs {
		_, err := q.Wait()
		all = errors.Join(all, r.completed(s, round, parts[round], err))
	}
	return all
}

// completed judges the end of a collective. It records a success before this rank may die of it.
func (r *rank) completed(s *shared, round int, u *part, err error) error {
	if err == nil {
		r.trace.complete(r.me, r.phases, round)
	}
	if r.done(s.kind, err) != nil {
		return r.excuseAny(err)
	}
	if d, doomed := r.p.doomed[r.me]; doomed && d.after && d.aim == s.kind && r.phases >= d.in {
		r.host.die(d.delay)
	}
	if !slices.Equal(u.got, u.want) {
		return fmt.Errorf("%v gave other numbers than %v …", s.kind, u.want[:min(4, len(u.want))])
	}
	return nil
}

// part is this rank's part in a collective.
type part struct {
	kind            Kind
	root            int
	mine, got, want []int64 // want is nil where no result is promised; then so is got
	all             []int64 // of a scatter
	// of blocks of different lengths: the blocks that this rank sends to each, and receives
	from, to [][]int64
	counts   []int
}

// series are the numbers of a block: they differ from block to block and from place to place, and none
// is 0. The sum of n blocks is the series of the sum of their numbers, with weight n.
func series(number, weight, length int) []int64 {
	data := make([]int64, length)
	for i := range data {
		data[i] = int64(number)<<32 + int64(weight*i)
	}
	return data
}

// unwritten is a buffer for a result, whose numbers are in no result.
func unwritten(length int) []int64 { return slices.Repeat([]int64{-1}, length) }

func (r *rank) part(s *shared, k Kind) *part {
	n, top := r.p.n, r.me == s.root
	block := func(rank int) []int64 { return series(rank+1, 1, s.elements) }
	u := &part{kind: k, root: s.root, mine: block(r.me)}
	blocks := func() (all []int64) {
		for rank := range n {
			all = append(all, block(rank)...)
		}
		return all
	}
	switch {
	case k == barrier:
		u.mine = nil
	case k == bcast:
		u.got, u.want = u.mine, block(s.root)
	case k == allreduce || k == reduce && top:
		u.got, u.want = u.mine, series(n*(n+1)/2, n, s.elements)
	case k == allgather || k == gather && top:
		u.got, u.want = unwritten(n*s.elements), blocks()
	case k == scatter:
		if u.got, u.want = unwritten(s.elements), block(r.me); top {
			u.all = blocks()
		}
	case k > allgather:
		r.exchanging(u, s.elements, top)
	}
	return u
}

// blocking performs it.
func (u *part) blocking(c *banyan.Comm) error {
	switch u.kind {
	case barrier:
		return c.Barrier()
	case bcast:
		return banyan.Bcast(c, u.got, u.root)
	case allreduce:
		return banyan.Allreduce(c, u.got, u.got, banyan.Sum)
	case reduce:
		return banyan.Reduce(c, u.mine, u.mine, banyan.Sum, u.root)
	case gather:
		return banyan.Gather(c, u.mine, u.got, u.root)
	case scatter:
		return banyan.Scatter(c, u.all, u.got, u.root)
	case allgather:
		return banyan.Allgather(c, u.mine, u.got)
	}
	return u.exchange(c)
}

// starts starts it.
func (u *part) starts(c *banyan.Comm) banyan.Request {
	switch u.kind {
	case barrier:
		return c.Ibarrier()
	case bcast:
		return banyan.Ibcast(c, u.got, u.root)
	case allreduce:
		return banyan.Iallreduce(c, u.got, u.got, banyan.Sum)
	case reduce:
		return banyan.Ireduce(c, u.mine, u.mine, banyan.Sum, u.root)
	case gather:
		return banyan.Igather(c, u.mine, u.got, u.root)
	case scatter:
		return banyan.Iscatter(c, u.all, u.got, u.root)
	case allgather:
		return banyan.Iallgather(c, u.mine, u.got)
	}
	return u.startExchange(c)
}

// complete records that a collective of a phase has succeeded at a rank.
func (t *trace) complete(rank, phase, round int) { t.bump(rank, completeAt+phase, 1<<round) }

// owed finds collectives that failed at a survivor although all dead ranks had completed them. In the
// ULFM profile they must succeed, unless the messages of dead ranks are lost.
func (t *trace) owed(p *plan, ends []rankEnd, survivors []int) error {
	if p.profile != banyan.ULFM || p.lossy {
		return nil
	}
	for i, ph := range p.phases {
		all := 1<<ph.shared.rounds - 1
		had := all // success at all dead ranks
		for rank, end := range ends {
			if end.killed {
				had &= t.count(rank, completeAt+i)
			}
		}
		for _, rank := range survivors {
			if lacks := had &^ t.count(rank, completeAt+i); lacks != 0 && ph.shared.kind != noKind {
				return fmt.Errorf("phase %d: %+v failed at rank %d (rounds %b), "+
					"though all of the dead had completed it (rounds %b)", i, ph.shared, rank, lacks, had)
			}
		}
	}
	return nil
}
