package drill

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// repair is a recovery by all ranks: they work, agree on its success, and otherwise revoke, shrink and
// continue with the survivors.
type repair struct {
	agree, shrink Kind  // blocking or not
	revokers      []int // ranks that spoil the first round
	asks          bool  // the others ask for the revocation
	elements      int   // of a sum
	ack           bool  // all acknowledge until every failure is acknowledged everywhere
}

func (p *plan) drawRepair(r *rand.Rand) *repair {
	p2 := &repair{
		agree: between(r, agree, iagree), shrink: between(r, shrink, ishrink),
		asks: r.IntN(2) == 0, elements: r.IntN(3) * 2500, ack: r.IntN(3) == 0,
	}
	if r.IntN(2) == 0 {
		p2.revokers = r.Perm(p.n)[:1+r.IntN(p.n)]
	}
	return p2
}

// aim includes an operation of a kind. Only the victim revokes.
func (p *repair) aim(k Kind, victim int) {
	p.revokers, p.asks = []int{victim}, false
	switch k {
	case agree, iagree:
		p.agree = k
	case shrink, ishrink:
		p.shrink = k
	case isRevoked:
		p.asks = true
	}
}

// recover does this rank's part on a communicator of its own. There is a round for each failure, and one
// for the revokers.
func (r *rank) recover(p *repair) error {
	c, err := r.dup(r.c)
	if err != nil {
		return err
	}
	for round := 0; ; round++ {
		if round > len(r.p.doomed)+1 {
			return fmt.Errorf("%d rounds of recovery with %d ranks that may die", round, len(r.p.doomed))
		}
		well, err := r.round(c, p, round)
		if err != nil {
			return err
		}
		if well {
			break
		}
		left, err := r.replace(c, p)
		if err != nil {
			return err
		}
		c = left
	}
	if p.ack {
		err = r.ackAll(c, p)
	}
	return errors.Join(err, c.Free())
}

// round works and agrees on its success.
func (r *rank) round(c *banyan.Comm, p *repair, number int) (well bool, err error) {
	if spoils := number == 0 && slices.Contains(p.revokers, r.me); spoils {
		err = r.revoke(c)
	} else {
		if number == 0 && len(p.revokers) > 0 && p.asks {
			r.begin(isRevoked)
			c.IsRevoked()
			r.done(isRevoked, nil)
		}
		well, err = r.work(c, p)
	}
	if err != nil {
		return false, err
	}
	flag := flagOf(r.me)
	if !well {
		flag--
	}
	all, _, err := r.agree(c, p.agree, flag)
	return all&1 == 1, err
}

// work is a sum. It fails after a failure or a revocation.
func (r *rank) work(c *banyan.Comm, p *repair) (well bool, err error) {
	data := make([]int64, p.elements)
	fill(data, 1)
	r.step("Allreduce of %d elements on %s", p.elements, c.Name())
	r.begin(allreduce)
	err = banyan.Allreduce(c, data, data, banyan.Sum)
	if r.done(allreduce, err) == nil {
		for _, v := range data {
			if v != int64(c.Size()) {
				return false, fmt.Errorf("%s: Allreduce gave %d, want %d", c.Name(), v, c.Size())
			}
		}
		return true, nil
	}
	if errors.Is(err, banyan.ErrRevoked) {
		r.failed++
		return false, nil
	}
	return false, errors.Join(r.excuseAny(r.inWorld(c, err)), r.revoke(c))
}

// inWorld translates the ranks of an error from a communicator to the world.
func (r *rank) inWorld(c *banyan.Comm, err error) error {
	var failed *banyan.ProcFailedError
	if !errors.As(err, &failed) {
		return err
	}
	named := *failed
	named.Ranks = nil
	for _, rank := range failed.Ranks {
		there, terr := c.Group().Translate([]int{rank}, r.c.Group())
		if terr != nil {
			return errors.Join(err, terr)
		}
		named.Ranks = append(named.Ranks, there...)
	}
	return &named
}

// members are the ranks of a group in the world.
func (r *rank) members(g banyan.Group) (bits uint64, err error) {
	ranks := make([]int, g.Size())
	for i := range ranks {
		ranks[i] = i
	}
	there, err := g.Translate(ranks, r.c.Group())
	for _, rank := range there {
		bits |= 1 << rank
	}
	return bits, err
}

// allMembers are the ranks of a communicator in the world, of both sides; none of nil.
func (r *rank) allMembers(c *banyan.Comm) (uint64, error) {
	if c == nil {
		return 0, nil
	}
	here, err := r.members(c.Group())
	if err != nil {
		return 0, err
	}
	there, err := r.members(c.RemoteGroup())
	return here | there, err
}

func (r *rank) revoke(c *banyan.Comm) error {
	r.step("Revoke %s", c.Name())
	r.begin(revoke)
	return r.done(revoke, c.Revoke())
}

// agree agrees on flags, and reports whether the error names unacknowledged failures.
func (r *rank) agree(c *banyan.Comm, how Kind, flag uint64) (all uint64, unacked bool, err error) {
	r.step("%v on %s", how, c.Name())
	r.begin(how)
	if how == iagree {
		all, err = c.Iagree(flag).Wait()
	} else {
		all, err = c.Agree(flag)
	}
	unacked, err = r.judgeAgree(c, how, flag, all, r.done(how, err))
	return all, unacked, err
}

// flagOf is a rank's contribution to agreements: all bits but one. The lowest bit is free for other use.
func flagOf(rank int) uint64 { return ^uint64(0) &^ (1 << (1 + rank%60)) }

// contributions checks the value of an agreement on c, to which each rank gave flagOf: it has the
// contribution of each living rank, and of each dead one that is neither named by the error nor
// acknowledged here (ULFM 17.3.1), and of no others.
func (r *rank) contributions(c *banyan.Comm, how Kind, all, named uint64) error {
	members, err := r.members(c.Group())
	if err != nil {
		return err
	}
	acked, err := r.members(c.FailureGetAcked())
	if err != nil {
		return err
	}
	common := ^uint64(0)
	for rank := range r.p.n {
		common &= flagOf(rank)
		if bit := uint64(1) << rank; members&bit == 0 || all&^flagOf(rank) == 0 {
			continue
		} else if !r.p.dies(rank) || (acked|named)&bit == 0 {
			return fmt.Errorf("%v gave %#x without the flags of rank %d; named are %#x, acknowledged %#x",
				how, all, rank, named, acked)
		}
	}
	if lacking := common &^ 1 &^ all; lacking != 0 {
		return fmt.Errorf("%v gave %#x without %#x, which no rank cleared", how, all, lacking)
	}
	return nil
}

// judgeAgree judges the outcome of an agreement, and reports whether it found unacknowledged failures.
func (r *rank) judgeAgree(c *banyan.Comm, how Kind, flag, all uint64, err error) (unacked bool, _ error) {
	n := note{Kind: how, Value: all}
	if all&^flag != 0 {
		return false, fmt.Errorf("%v gave %#x, which has more than this rank's %#x", how, all, flag)
	}
	if err != nil {
		var failed *banyan.ProcFailedError
		if !errors.As(r.inWorld(c, err), &failed) || len(failed.Ranks) == 0 {
			return false, err
		}
		known, kerr := r.members(c.GetFailed())
		for _, rank := range failed.Ranks {
			n.Failed |= 1 << rank
		}
		if kerr != nil || n.Failed&^known != 0 {
			return false, fmt.Errorf("%v names %#x, known to have failed are %#x: %w", how, n.Failed, known, err)
		}
		unacked, err = true, r.excuseAny(failed)
	}
	r.notes = append(r.notes, n)
	if flag|1 == flagOf(r.me)|1 {
		err = errors.Join(err, r.contributions(c, how, all, n.Failed))
	}
	return unacked, err
}

// replace returns the communicator of the survivors.
func (r *rank) replace(c *banyan.Comm, p *repair) (left *banyan.Comm, err error) {
	if err := r.revoke(c); err != nil {
		return nil, err
	}
	if !c.IsRevoked() {
		return nil, fmt.Errorf("%s is not revoked, right after that", c.Name())
	}
	known, err := r.members(c.GetFailed())
	if err != nil {
		return nil, err
	}
	r.step("%v %s, of which %#x have failed", p.shrink, c.Name(), known)
	r.begin(p.shrink)
	if p.shrink == ishrink {
		left, err = c.Ishrink().Wait()
	} else {
		left, err = c.Shrink()
	}
	if r.done(p.shrink, err) != nil {
		return nil, err
	}
	return left, errors.Join(r.shrunk(c, left, known, p.shrink), c.Free())
}

// shrunk judges the members of a shrunken communicator; left is nil where a side has no survivor.
func (r *rank) shrunk(c, left *banyan.Comm, known uint64, how Kind) error {
	was, err := r.allMembers(c)
	if err != nil {
		return err
	}
	now, err := r.allMembers(left)
	if err != nil {
		return err
	}
	if now&^was != 0 || now&known != 0 {
		return fmt.Errorf("%v of %#x made %#x, known to have failed were %#x", how, was, now, known)
	}
	for rank := range r.p.n {
		if bit := uint64(1) << rank; left != nil && was&^now&bit != 0 && !r.p.dies(rank) {
			return fmt.Errorf("%v of %#x made %#x: rank %d is missing and lives", how, was, now, rank)
		}
	}
	r.notes = append(r.notes, note{Kind: how, Value: now})
	return nil
}

// ackAll ends when all members have acknowledged all failures. Each failed agreement has found one more.
func (r *rank) ackAll(c *banyan.Comm, p *repair) error {
	for range len(r.p.doomed) + 1 {
		if _, err := c.AckFailed(c.Size()); err != nil {
			return err
		}
		_, unacked, err := r.agree(c, p.agree, 0)
		if err != nil || !unacked {
			return err
		}
	}
	return errors.New("agreements report unacknowledged failures more often than there are failures")
}

// farewell recovers, and some ranks revoke the world, while others are between the last agreement and
// the end of Finalize.
func (r *rank) farewell(p *repair) error {
	if err := r.recover(p); err != nil {
		return err
	}
	if slices.Contains(p.revokers, r.me) {
		return r.revoke(r.c)
	}
	return nil
}
