// Command consistent makes communicators that all members have, or none: example 17.1 of the MPI Forum's chapter on
// process fault tolerance (draft of January 2014). A split in which somebody dies may succeed at some ranks and
// fail at others. So all agree afterwards on whether it has succeeded at each of them, and who has
// made a communicator that another one has not frees it.
//
//	go build -o bin/ ./examples/consistent && bin/ftbench run -n 6 -- bin/consistent -kill 2
//
// has two ranks killed by SIGKILL while all split again and again; the survivors go on.
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

// run splits, uses what came of it, and leaves the dead behind where it failed.
func run(w *banyan.World, rounds, kill int) error {
	c, err := w.Comm().Dup() // the world's communicator cannot be freed
	if err != nil {
		return err
	}
	me, size, undone := c.Rank(), c.Size(), 0
	dying := false
	for round := 0; round < rounds; {
		if dying {
			select {} // the end is on its way
		}
		if me > 0 && me >= size-kill && round == rounds*(size-me)/(kill+1) {
			dying = true
			go func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }() // anywhere in this round; it does not fail
		}
		child, err := splitConsistent(c, c.Rank()%2, 0)
		if err == nil {
			err = use(child)
			// The child may have dead in it. Whether the round is over is once more for all to say.
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

// splitConsistent is Split that succeeds at all ranks that live, or at none: then the error is ErrProcFailed. The
// communicator may have dead in it: what is done on it may fail, in well-defined ways.
func splitConsistent(parent *banyan.Comm, color, key int) (*banyan.Comm, error) {
	child, err := parent.Split(color, key)
	if all := consistent(parent, err); all != nil {
		if err == nil && child != nil { // some other rank has none
			err = child.Free()
		}
		return nil, errors.Join(all, err)
	}
	return child, nil
}

// consistent gives all ranks of c the same answer to whether something has succeeded at each of them: nil if so, else
// ErrProcFailed. Any rank that did it is to ask, also with an error.
func consistent(c *banyan.Comm, err error) error {
	var succeeded uint64
	if err == nil {
		succeeded = 1
	}
	// That somebody has failed whom not all have acknowledged is an error of the agreement, alike at all ranks; the
	// flag is right all the same, and it alone is asked for.
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
		err = errors.Join(err, c.Revoke()) // nobody is to wait for this rank on it
	} else if n := int64(c.Size()); sum[0] != n*(n-1)/2 {
		log.Fatalf("the sum of the ranks of %s is %d", c.Name(), sum[0])
	}
	return errors.Join(err, c.Free())
}
