// Command consistent makes communicators that all members have, or none: example 17.1 of the MPI Forum's chapter on
// process fault tolerance (draft of January 2014). If a rank dies during a split, the split may succeed at some
// ranks and fail at others. So all ranks agree afterwards on whether it has succeeded at each of them. If not, the
// ranks that have a new communicator free it.
//
//	go build -o bin/ ./examples/consistent && bin/ftbench run -n 6 -- bin/consistent -kill 2
//
// kills two ranks by SIGKILL while all split again and again; the survivors continue.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"syscall"

	"github.com/banyan-hpc/banyan"
)

func main() {
	rounds := flag.Int("rounds", 100, "times to split")
	kill := flag.Int("kill", 0, "ranks to kill with SIGKILL, each in a split of its own; rank 0 is none of them")
	flag.Parse()
	banyan.Run(func(w *banyan.World) error { return run(w, *rounds, *kill) })
}

// run splits, and uses the new communicators. After a failure it continues with the living ranks.
func run(w *banyan.World, rounds, kill int) error {
	c, err := w.Comm().Dup() // the world's communicator cannot be freed
	if err != nil {
		return err
	}
	me, size, undone := c.Rank(), c.Size(), 0
	dying := false
	for round := 0; round < rounds; {
		if dying {
			select {} // wait for the signal
		}
		if me > 0 && me >= size-kill && round == rounds*(size-me)/(kill+1) {
			dying = true
			go func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }() // any time in this round; it succeeds
		}
		child, err := splitConsistent(c, c.Rank()%2, 0)
		if err == nil {
			err = use(child)
			// The child may have failed members. All ranks agree again on whether the round has
			// succeeded.
			err = consistent(c, err)
		}
		switch {
		case err == nil:
			round++
			continue
		case !errors.Is(err, banyan.ErrProcFailed):
			return err
		}
		undone++
		left, err := c.Shrink()
		if err != nil {
			return err
		}
		if err := c.Free(); err != nil {
			return err
		}
		c = left
	}
	if c.Rank() == 0 {
		fmt.Printf("%d splits done with %d of %d ranks left, %d done over\n", rounds, c.Size(), size, undone)
	}
	return c.Free()
}

// splitConsistent is Split that succeeds at all living ranks or at none: then the error is ErrProcFailed. The
// communicator may have failed members: operations on it may fail, in well-defined ways.
func splitConsistent(parent *banyan.Comm, color, key int) (*banyan.Comm, error) {
	child, err := parent.Split(color, key)
	if all := consistent(parent, err); all != nil {
		if err == nil && child != nil { // another rank has none
			err = child.Free()
		}
		return nil, errors.Join(all, err)
	}
	return child, nil
}

// consistent returns the same at all ranks of c: nil if each of them has called it with nil, else ErrProcFailed.
// Every living rank must call it, also with an error.
func consistent(c *banyan.Comm, err error) error {
	var succeeded uint64
	if err == nil {
		succeeded = 1
	}
	// The agreement returns an error, alike at all ranks, if a rank has failed and not all have acknowledged that.
	// The flag is valid nevertheless, and only the flag matters here.
	succeeded, lost := c.Agree(succeeded)
	switch {
	case lost != nil && !errors.Is(lost, banyan.ErrProcFailed):
		return lost
	case succeeded == 0:
		return fmt.Errorf("not at all ranks of %s: %w", c.Name(), banyan.ErrProcFailed)
	}
	return nil
}

// use adds up the ranks of the new communicator, and frees it.
func use(c *banyan.Comm) error {
	sum := []int64{int64(c.Rank())}
	err := banyan.Allreduce(c, sum, sum, banyan.Sum)
	if err != nil {
		err = errors.Join(err, c.Revoke()) // so that no rank waits for this one on c
	} else if n := int64(c.Size()); sum[0] != n*(n-1)/2 {
		log.Fatalf("the sum of the ranks of %s is %d", c.Name(), sum[0])
	}
	return errors.Join(err, c.Free())
}
