package banyan_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// mortal is Simulate for the examples of recovery: four ranks, of which rank 2 dies after a millisecond.
func mortal(body func(w *banyan.World) error) {
	err := banyan.Simulate(4, banyan.Simulation{
		Faults: func(s *sim.Sim) error { return s.Kill(2, fabric.Time(time.Millisecond)) },
	}, body)
	if err != nil {
		log.Fatal(err)
	}
}

// Ranks sum until one of them dies. Who meets the failure revokes, so that nobody waits for those who have
// turned to recovery, and the living go on without the dead.
func ExampleComm_Shrink() {
	mortal(func(w *banyan.World) error {
		c := w.Comm()
		var err error
		for err == nil {
			err = banyan.Allreduce(c, []int{1}, banyan.Sum)
		}
		if !errors.Is(err, banyan.ErrRevoked) {
			if err := c.Revoke(); err != nil {
				return err
			}
		}
		left, err := c.Shrink()
		if err != nil {
			return err
		}
		sum := []int{c.Rank()}
		if err := banyan.Allreduce(left, sum, banyan.Sum); err != nil {
			return err
		}
		if left.Rank() == 0 {
			fmt.Printf("%d of %d ranks are left, the sum of their old ranks is %d\n", left.Size(), c.Size(), sum[0])
		}
		return left.Free()
	})
	// Output: 3 of 4 ranks are left, the sum of their old ranks is 4
}

// Agree gives all living ranks one answer, though a rank dies; its error says that not all have acknowledged that. When
// they have, there is none.
func ExampleComm_Agree() {
	mortal(func(w *banyan.World) error {
		c := w.Comm()
		var err error
		for flags := uint64(0); err == nil; {
			flags, err = c.Agree(0b111 &^ uint64(c.Rank()))
			if err != nil && c.Rank() == 0 {
				fmt.Printf("%03b, a rank has failed: %v\n", flags, errors.Is(err, banyan.ErrProcFailed))
			}
		}
		if _, err := c.AckFailed(c.GetFailed().Size()); err != nil {
			return err
		}
		flags, err := c.Agree(0b111 &^ uint64(c.Rank()))
		if c.Rank() == 0 {
			fmt.Printf("%03b without rank 2, %v\n", flags, err)
		}
		return err
	})
	// Output:
	// 100, a rank has failed: true
	// 100 without rank 2, <nil>
}
