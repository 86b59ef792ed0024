package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// chaosRank is one rank of a chaos.
type chaosRank struct {
	*chaosRun
	w    *banyan.World
	c    *banyan.Comm
	me   int
	at   int // in the program
	op   chaosOp
	step int // in the operation
}

// chaosRun is a run of a chaos. One rank runs at a time.
type chaosRun struct {
	*chaos
	machine *sim.Sim
	said    []map[string]string // by rank: the outcome of each agreement, by its place in the program
	steps   map[chaosKind]int   // how many ranks have ended each
	started int                 // ranks that have started
	failed  int                 // agreements with an error
	rounds  int                 // shrinks
}

// run runs the job and returns its violations.
func (c *chaos) run() (*chaosRun, error) {
	r := &chaosRun{chaos: c, said: make([]map[string]string, c.n), steps: map[chaosKind]int{}}
	var opts []banyan.Option
	if c.detector {
		opts = append(opts, banyan.WithDetection(200*time.Millisecond, time.Second))
	}
	err := banyan.Simulate(c.n, banyan.Simulation{
		Seed: c.seed, Options: opts, Launcher: c.simulated(),
		Configure: func(s *sim.Config) {
			s.Topology.ProcsPerNode, s.Detection.Max, s.LossAtDeath = c.perNode, c.slow, c.loss
			s.Detection.Min = min(s.Detection.Min, c.slow)
			s.MaxTime = fabric.Time(200 * time.Millisecond)
			if c.detector {
				s.MaxTime = fabric.Time(20 * time.Second)
			}
			for _, nap := range c.naps {
				s.MaxTime += fabric.Time(nap.long)
			}
			if c.launcher != nil {
				s.MaxTime += fabric.Time(1000 * c.launcher.latency)
			}
		},
		Faults: func(s *sim.Sim) error {
			r.machine = s
			var errs []error
			for _, d := range c.deaths {
				if d.step > 0 {
					errs = append(errs, s.KillAtStep(proc.ID(d.rank), d.step))
				}
			}
			return errors.Join(errs...)
		},
	}, r.rank)
	var missing *join.MissingError
	if len(c.deaths) > 0 && r.started == 0 && errors.As(err, &missing) {
		return r, nil // the start has failed at all ranks
	}
	return r, errors.Join(err, r.judge())
}

// simulated is the launcher in the simulator's form.
func (c *chaos) simulated() *banyan.SimulatedLauncher {
	if c.launcher == nil {
		return nil
	}
	l := &banyan.SimulatedLauncher{Latency: c.launcher.latency, Strict: c.launcher.strict,
		Late: func(rank, fence int) time.Duration {
			if fence < chaosFences {
				return c.nap(rank, fence-chaosFences)
			}
			return 0
		}}
	return l
}

// nap is the time for which a rank sleeps before an operation; a negative one is a fence of the
// start.
func (c *chaos) nap(rank, at int) (long time.Duration) {
	for _, n := range c.naps {
		if n.rank == rank && n.at == at {
			long += n.long
		}
	}
	return long
}

// judge compares the outcomes of the survivors.
func (r *chaosRun) judge() error {
	first := map[string]string{}
	who := map[string]int{}
	for rank, said := range r.said {
		if _, ended := r.machine.Ended(proc.ID(rank)); !ended || r.killed(rank) {
			continue
		}
		for key, got := range said {
			if want, there := first[key]; there && want != got {
				return fmt.Errorf("%s: rank %d has %s, rank %d has %s", key, who[key], want, rank, got)
			}
			first[key], who[key] = got, rank
		}
	}
	return nil
}

func (r *chaosRun) killed(rank int) bool {
	cause, ended := r.machine.Ended(proc.ID(rank))
	return ended && cause.Failed()
}

// rank is the life of one rank.
func (r *chaosRun) rank(w *banyan.World) error {
	k := &chaosRank{chaosRun: r, w: w, c: w.Comm(), me: w.Comm().Rank()}
	r.started++
	r.said[k.me] = map[string]string{}
	for k.at, k.op = range r.program {
		k.step = 0
		w.Sleep(r.nap(k.me, k.at))
		for _, d := range r.deaths {
			if d.rank == k.me && d.step == 0 && d.op == k.at {
				if err := r.machine.Kill(proc.ID(k.me), r.machine.Now()+fabric.Time(d.after)); err != nil {
					return err
				}
			}
		}
		if err := k.do(); err != nil {
			return fmt.Errorf("operation %d, %s: %w", k.at, chaosNames[k.op.kind], err)
		}
		r.steps[k.op.kind]++
	}
	w.Sleep(r.nap(k.me, len(r.program)))
	if r.launcher == nil {
		if err := k.linger(); err != nil {
			return err
		}
	}
	return k.justice()
}

// justice checks that only killed ranks count as failed.
func (k *chaosRank) justice() error {
	for _, rank := range k.inWorld(k.w.Comm().GetFailed()) {
		if !k.dies(rank) || !k.killed(rank) {
			return fmt.Errorf("rank %d counts as failed and has not been killed", rank)
		}
	}
	return nil
}

// linger makes progress until all survivors have finished: without a launcher Finalize does not
// wait for them.
func (k *chaosRank) linger() error {
	for {
		k.said[k.me]["over"] = "yes"
		missing := false
		for rank := range k.n {
			missing = missing || k.said[rank]["over"] == "" && !k.killed(rank)
		}
		if !missing {
			return nil
		}
		if k.detector {
			k.w.Sleep(5 * time.Millisecond)
		} else {
			k.w.Sleep(50 * time.Microsecond)
		}
		k.w.Comm().GetFailed() // makes progress
	}
}

// draw is a number of this operation that differs from rank to rank.
func (k *chaosRank) draw(rank, n int) int {
	z := k.op.salt + uint64(rank+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) % uint64(n))
}

// say records an outcome that all survivors must share.
func (k *chaosRank) say(c *banyan.Comm, what, format string, args ...any) {
	k.step++
	k.said[k.me][fmt.Sprintf("%d.%d %s %v", k.at, k.step, what, k.members(c))] = fmt.Sprintf(format, args...)
}

// members are a communicator's ranks in the world, of both sides.
func (k *chaosRank) members(c *banyan.Comm) []int {
	all := k.inWorld(c.Group())
	if c.IsInter() {
		all = append(all, k.inWorld(c.RemoteGroup())...)
		slices.Sort(all)
	}
	return all
}

func (k *chaosRank) inWorld(g banyan.Group) []int {
	ranks := make([]int, g.Size())
	for i := range ranks {
		ranks[i] = i
	}
	there, err := g.Translate(ranks, k.w.Comm().Group())
	if err != nil {
		panic(err) // all are of this job
	}
	return there
}

// excuse returns nil for an error that a death or a revocation explains.
func (k *chaosRank) excuse(err error) error {
	var failed *banyan.ProcFailedError
	switch {
	case err == nil, errors.Is(err, banyan.ErrRevoked):
		return nil
	case errors.As(err, &failed) && len(failed.Ranks) > 0 && len(k.deaths) > 0:
		return nil
	}
	return err
}

// flag is the contribution of a rank to an agreement.
func (k *chaosRank) flag(rank int) uint64 { return ^(1 << k.draw(rank, 64)) }

// agreed judges the outcome of an agreement on flags.
func (k *chaosRank) agreed(c *banyan.Comm, got uint64, err error) error {
	var failed *banyan.ProcFailedError
	var blamed []int
	if err != nil {
		k.failed++
		if !errors.As(err, &failed) {
			return fmt.Errorf("agree: %w", err)
		}
		blamed = slices.Clone(failed.Ranks)
		slices.Sort(blamed)
	}
	from := k.inWorld(c.RemoteGroup())
	all := ^uint64(0)
	for _, rank := range from {
		all &= k.flag(rank)
		if !k.dies(rank) && got&^k.flag(rank) != 0 {
			return fmt.Errorf("agree: %#x is without the flags of rank %d, which lives", got, rank)
		}
	}
	if got&all != all {
		return fmt.Errorf("agree: %#x lacks some of %#x, which all gave", got, all)
	}
	side := "this"
	if c.IsInter() {
		side = fmt.Sprint(from)
		blamed = nil // ranks are of one side or the other
	}
	if err := k.unacknowledged(c, got, failed); err != nil {
		return err
	}
	k.say(c, "agree "+side, "%#x error %v naming %v", got, err != nil, blamed)
	return k.blames(c, failed)
}

// unacknowledged checks that a rank without a contribution is acknowledged here or named by the
// error.
func (k *chaosRank) unacknowledged(c *banyan.Comm, got uint64, failed *banyan.ProcFailedError) error {
	if c.IsInter() {
		return nil
	}
	acked := k.inWorld(c.FailureGetAcked())
	for at, rank := range k.inWorld(c.Group()) {
		gave := got&^k.flag(rank) == 0
		if !gave && !slices.Contains(acked, rank) && (failed == nil || !slices.Contains(failed.Ranks, at)) {
			return fmt.Errorf("agree: %#x without the flag of rank %d of the world, neither named nor acknowledged",
				got, rank)
		}
	}
	return nil
}

// blames checks the ranks that an error of an agreement names.
func (k *chaosRank) blames(c *banyan.Comm, failed *banyan.ProcFailedError) error {
	if failed == nil || c.IsInter() {
		return nil
	}
	world := k.inWorld(c.Group())
	known := k.inWorld(c.GetFailed())
	for _, rank := range failed.Ranks {
		if !k.dies(world[rank]) || !slices.Contains(known, world[rank]) {
			return fmt.Errorf("agree blames rank %d of the world, known to have failed are %v", world[rank], known)
		}
	}
	return nil
}

func (k *chaosRank) agree(c *banyan.Comm) error {
	got, err := c.Agree(k.flag(k.me))
	return k.agreed(c, got, err)
}

// shrunk judges a shrunken communicator; some ranks were known to have failed before.
func (k *chaosRank) shrunk(c, left *banyan.Comm, known []int, err error) error {
	if err != nil {
		return fmt.Errorf("shrink: %w", err)
	}
	k.rounds++
	was, now := k.members(c), []int{}
	if left != nil {
		now = k.members(left)
	}
	for _, rank := range was {
		switch {
		case slices.Contains(known, rank) && slices.Contains(now, rank):
			return fmt.Errorf("shrink of %v: rank %d is in %v, and was known to have failed", was, rank, now)
		case !k.dies(rank) && left != nil && !slices.Contains(now, rank):
			return fmt.Errorf("shrink of %v: rank %d is not in %v, and lives", was, rank, now)
		}
	}
	k.say(c, "shrink", "%v named %s", now, nameOf(left))
	return nil
}

func nameOf(c *banyan.Comm) string {
	if c == nil {
		return "nothing"
	}
	return c.Name()
}

func (k *chaosRank) shrink(c *banyan.Comm) (*banyan.Comm, error) {
	known := k.inWorld(c.GetFailed())
	left, err := c.Shrink()
	return left, k.shrunk(c, left, known, err)
}

// free frees a communicator except the world.
func (k *chaosRank) free(c *banyan.Comm) error {
	if c == k.w.Comm() || c == nil {
		return nil
	}
	return c.Free()
}

// work communicates, and reports whether that failed.
func (k *chaosRank) work(c *banyan.Comm) (failed bool, err error) {
	mine := make([]byte, 1+k.draw(-2, 3)*k.draw(-3, 40_000))
	switch k.draw(-1, 5) {
	case 0:
		err = c.Barrier()
	case 1:
		err = c.Allreduce(mine, mine, func(acc, in []byte) {})
	case 2:
		err = c.Bcast(mine, k.draw(-4, c.Size()))
	case 3:
		right, left := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		in := make([]byte, len(mine))
		for range 3 {
			_, serr := c.Sendrecv(mine, right, 1, in, left, 1)
			err = cmp.Or(err, serr)
		}
	case 4:
		all := slices.Repeat(mine, c.Size())
		err = c.Alltoall(all, all)
	}
	return err != nil, errors.Join(k.excuse(err), k.tell(c, err))
}

// tell makes the others leave a communication in which this rank has met an error. With a detector
// they leave a collective by themselves, so some ranks do nothing.
func (k *chaosRank) tell(c *banyan.Comm, err error) error {
	ring := k.draw(-1, 5) == 3
	if err == nil || k.detector && !ring && k.draw(k.me, 3) == 0 {
		return nil
	}
	return c.Revoke()
}
