package chaos

import (
	"errors"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
)

// do carries out the operation.
func (k *chaosRank) do() error {
	switch k.op.kind {
	case doWork:
		_, err := k.work(k.c)
		return err
	case doRevoke:
		if k.draw(k.me, 3) == 0 {
			if err := k.c.Revoke(); err != nil {
				return err
			}
		}
		k.c.IsRevoked()
		return k.replace() // a revoked communicator is of no other use
	case doAgree:
		return k.agree(k.c)
	case doOverlap:
		return k.overlap()
	case doAckLoop:
		return k.ackLoop()
	case doRepair:
		return k.repair()
	case doOrders:
		return k.onUsable(k.orders)
	case doHear:
		return k.onUsable(k.hear)
	case doDup, doSplit, doMerge:
		return k.onUsable(k.create)
	case doValidate:
		return k.onUsable(k.validate)
	case doMultiple:
		return k.onUsable(k.multiple)
	case doUniform:
		return k.onUsable(k.uniform)
	case doRange:
		return k.onUsable(k.ranges)
	}
	k.w.Sleep(time.Duration(k.draw(k.me, 300)) * time.Microsecond)
	return nil
}

// onUsable runs an operation that creates communicators. If some rank has found this communicator
// revoked, it first replaces it.
func (k *chaosRank) onUsable(do func() error) error {
	well := uint64(1)
	if k.c.IsRevoked() {
		well = 0
	}
	well, err := k.c.Agree(well)
	if k.excuse(err) != nil {
		return err
	}
	if well == 0 {
		if err := k.replace(); err != nil {
			return err
		}
	}
	return do()
}

// hear: one rank revokes while the others wait for a message that is never sent.
func (k *chaosRank) hear() error {
	d, err := k.c.Dup()
	if errors.Is(err, banyan.ErrRevoked) {
		return nil // the others, which wait for no one here, are further on
	}
	if err != nil {
		return err
	}
	if k.draw(-1, d.Size()) == d.Rank() {
		err = d.Revoke()
	} else {
		_, err = d.Recv(nil, (d.Rank()+1)%d.Size(), 5)
		if err == nil {
			return errors.New("a receive got a message that no rank has sent")
		}
		if err = k.excuse(err); err == nil {
			err = d.Revoke() // also if only the source has died
		}
	}
	return errors.Join(err, d.Free())
}

// overlap starts two agreements and a shrink, and waits for them in some order.
func (k *chaosRank) overlap() error {
	known := k.inWorld(k.c.GetFailed())
	a, b, s := k.c.Iagree(k.flag(k.me)), k.c.Iagree(k.flag(k.me)), k.c.Ishrink()
	var errA, errB, errS error
	if k.draw(k.me, 2) == 0 {
		_, errS = s.Wait()
		_, errB = b.Wait()
		_, errA = a.Wait()
	} else {
		_, errA = a.Wait()
		_, errB = b.Wait()
		_, errS = s.Wait()
	}
	return errors.Join(k.agreed(k.c, a.Value(), errA), k.agreed(k.c, b.Value(), errB),
		k.shrunk(k.c, s.Value(), known, errS), k.free(s.Value()))
}

// ackLoop ends with an agreement without error. Each agreement with an error has found one more
// failure.
func (k *chaosRank) ackLoop() error {
	for range len(k.deaths) + 1 {
		if _, err := k.c.AckFailed(k.c.Size()); err != nil {
			return err
		}
		got, err := k.c.Agree(k.flag(k.me))
		if err := k.agreed(k.c, got, err); err != nil {
			return err
		}
		if err == nil {
			return nil
		}
	}
	return errors.New("more agreements with an error than failures to be acknowledged")
}

// repair is the usual recovery: work, agree on success, otherwise revoke and shrink.
func (k *chaosRank) repair() error {
	for range len(k.deaths) + 2 {
		failed, err := k.work(k.c)
		if err != nil {
			return err
		}
		well := uint64(1)
		if failed {
			well = 0
		}
		if well, err = k.c.Agree(well); k.excuse(err) != nil {
			return err
		}
		k.say(k.c, "well", "%d %v", well, err != nil)
		if well == 1 {
			return nil
		}
		if err := k.replace(); err != nil {
			return err
		}
	}
	return errors.New("more rounds than failures")
}

// replace continues with the shrunken communicator.
func (k *chaosRank) replace() error {
	if err := k.c.Revoke(); err != nil {
		return err
	}
	left, err := k.shrink(k.c)
	if err != nil {
		return err
	}
	err = k.free(k.c)
	k.c = left
	return err
}

// orders shrinks two communicators with the same members in different orders.
func (k *chaosRank) orders() error {
	d, err := k.copied(k.c)
	if d == nil {
		return err
	}
	comms := [2]*banyan.Comm{k.c, d}
	var left [2]*banyan.Comm
	var known [2][]int
	var reqs [2]banyan.Result[*banyan.Comm]
	for i := range 2 {
		j := (i + k.draw(k.me, 2)) % 2
		known[j] = k.inWorld(comms[j].GetFailed())
		reqs[j] = comms[j].Ishrink()
	}
	for i := range 2 {
		var err error
		left[i], err = reqs[i].Wait()
		if err := k.shrunk(comms[i], left[i], known[i], err); err != nil {
			return err
		}
	}
	return errors.Join(k.free(left[0]), k.free(left[1]), k.free(d))
}

// create creates a communicator; all agree on whether every rank has it, and use and free it.
func (k *chaosRank) create() error {
	d, err := k.derive()
	if made, err := k.made(err); err != nil || !made || d == nil {
		return errors.Join(err, k.free(d)) // nil: merge had nothing to merge, at all ranks
	}
	if _, err := k.work(d); err != nil {
		return fmt.Errorf("on %s: %w", d.Name(), err)
	}
	if err := k.agree(d); err != nil {
		return err
	}
	left, err := k.shrink(d)
	if err != nil {
		return err
	}
	err = k.agree(left)
	if k.draw(k.me, 2) == 0 {
		err = errors.Join(err, left.Revoke())
	}
	return errors.Join(err, k.free(left), k.free(d))
}

// made has all agree on whether every rank has created a communicator.
func (k *chaosRank) made(err error) (all bool, _ error) {
	if err := errors.Join(k.excuse(err), k.tell(k.c, err)); err != nil {
		return false, err
	}
	mine := uint64(1)
	if err != nil {
		mine = 0
	}
	made, err := k.c.Agree(mine)
	k.say(k.c, "made", "%d %v", made, err != nil)
	return made == 1, k.excuse(err)
}

// derive creates the communicator of the operation.
func (k *chaosRank) derive() (*banyan.Comm, error) {
	switch k.op.kind {
	case doDup:
		return k.c.Dup()
	case doSplit:
		return k.c.Split(k.draw(k.me, 2), k.draw(k.me, 100))
	}
	return k.merge()
}

// merge splits, connects the halves, agrees across and shrinks, twice, and merges the rest. Nil: a
// half has died.
func (k *chaosRank) merge() (*banyan.Comm, error) {
	if k.c.Size() < 2 {
		return k.c.Dup()
	}
	inter, err := k.bridge()
	if inter == nil || err != nil {
		return nil, err
	}
	for range 2 {
		if err := k.agree(inter); err != nil {
			return nil, err
		}
		left, err := k.shrink(inter)
		if err := errors.Join(err, k.free(inter)); err != nil {
			return nil, err
		}
		if inter = left; inter == nil || inter.Size() == 0 || inter.RemoteGroup().Size() == 0 {
			return nil, k.free(inter)
		}
	}
	merged, err := inter.Merge(k.draw(-5, 2) == 0)
	if err != nil {
		err = errors.Join(err, inter.Revoke())
	}
	return merged, errors.Join(err, inter.Free())
}

// bridge creates an intercommunicator of the even and the odd ranks. Nil: not all have it.
func (k *chaosRank) bridge() (*banyan.Comm, error) {
	side := k.c.Rank() % 2
	half, err := k.c.Split(side, 0)
	if made, err := k.made(err); err != nil || !made {
		return nil, errors.Join(err, k.free(half))
	}
	inter, err := half.CreateInter(0, k.c, 1-side, 7)
	if err != nil {
		if err := half.Revoke(); err != nil {
			return nil, err
		}
	}
	made, err := k.made(err)
	if err == nil && !made {
		err = k.free(inter)
		inter = nil
	}
	return inter, errors.Join(err, half.Free())
}
