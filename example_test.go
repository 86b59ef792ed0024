package banyan_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/banyan-hpc/banyan"
)

// run is Simulate for the examples: n ranks in this process.
func run(n int, body func(w *banyan.World) error) {
	if err := banyan.Simulate(n, banyan.Simulation{}, body); err != nil {
		log.Fatal(err)
	}
}

// Run is the main function of a rank. A program without a launcher is a world of one rank.
func ExampleRun() {
	banyan.Run(func(w *banyan.World) error {
		c := w.Comm()
		sum := []int{c.Rank()}
		if err := banyan.Allreduce(c, sum, sum, banyan.Sum); err != nil {
			return err // this rank has failed
		}
		fmt.Printf("rank %d of %d, sum %d\n", c.Rank(), c.Size(), sum[0])
		return nil
	})
	// Output: rank 0 of 1, sum 0
}

// Init and Finalize are the parts of Run, for programs that continue after them.
func Example() {
	w, err := banyan.Init()
	if err != nil {
		log.Fatal(err)
	}
	defer w.Finalize()
	c := w.Comm()
	fmt.Printf("rank %d of %d\n", c.Rank(), c.Size())
	// Output: rank 0 of 1
}

// Two ranks, in one process and in virtual time: the same body runs as a real job
// after Init.
func ExampleSimulate() {
	err := banyan.Simulate(2, banyan.Simulation{Seed: 1}, func(w *banyan.World) error {
		c := w.Comm()
		buf := make([]byte, 4)
		if c.Rank() == 0 {
			if err := c.Send([]byte("ping"), 1, 0); err != nil {
				return err
			}
			st, err := c.Recv(buf, 1, banyan.AnyTag)
			fmt.Printf("%s, tag %d\n", buf[:st.Count], st.Tag)
			return err
		}
		if _, err := c.Recv(buf, 0, 0); err != nil {
			return err
		}
		fmt.Printf("%s\n", buf)
		return c.Send([]byte("pong"), 0, 7)
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// ping
	// pong, tag 7
}

// Each rank sends to its right neighbour and receives from its left one at once: no order of
// sends and receives can block the ring.
func ExampleSendrecv() {
	run(4, func(w *banyan.World) error {
		c := w.Comm()
		right, left := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		sum, token := 0, []int{c.Rank()}
		for range c.Size() {
			sum += token[0]
			next := make([]int, 1)
			if _, err := banyan.Sendrecv(c, token, right, 0, next, left, 0); err != nil {
				return err
			}
			token = next
		}
		if c.Rank() == 0 {
			fmt.Println("sum of the ranks:", sum)
		}
		return nil
	})
	// Output: sum of the ranks: 6
}

// A row of cells is spread over the ranks. Each needs its neighbours' outermost cells. ProcNull is
// the missing neighbour of the ends.
func ExampleWaitAll() {
	run(3, func(w *banyan.World) error {
		c := w.Comm()
		left, right := c.Rank()-1, c.Rank()+1
		if left < 0 {
			left = banyan.ProcNull
		}
		if right == c.Size() {
			right = banyan.ProcNull
		}
		cells := []float64{0, float64(10 * c.Rank()), float64(10*c.Rank() + 1), 0} // halo, two cells, halo
		reqs := []banyan.Request{
			banyan.Irecv(c, cells[:1], left, 0),
			banyan.Irecv(c, cells[3:], right, 0),
			banyan.Isend(c, cells[1:2], left, 0),
			banyan.Isend(c, cells[2:3], right, 0),
		}
		if err := banyan.WaitAll(reqs); err != nil {
			return err
		}
		if c.Rank() == 1 {
			fmt.Println(cells)
		}
		return nil
	})
	// Output: [1 10 11 20]
}

func ExampleComm_Split() {
	run(5, func(w *banyan.World) error {
		c := w.Comm()
		parity, err := c.Split(c.Rank()%2, 0) // even ranks, odd ranks
		if err != nil {
			return err
		}
		if c.Rank() == 4 {
			fmt.Printf("rank 4 is rank %d of %d among the even ones\n", parity.Rank(), parity.Size())
		}
		return parity.Free()
	})
	// Output: rank 4 is rank 2 of 3 among the even ones
}

func ExampleAllreduce() {
	run(4, func(w *banyan.World) error {
		c := w.Comm()
		x := []float64{1, float64(c.Rank())}
		if err := banyan.Allreduce(c, x, x, banyan.Sum); err != nil {
			return err
		}
		if c.Rank() == 2 {
			fmt.Println("mean rank", x[1]/x[0])
		}
		return nil
	})
	// Output: mean rank 1.5
}

func ExampleSendValue() {
	type task struct {
		Name  string
		Sizes map[string]int
	}
	run(2, func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 0 {
			return banyan.SendValue(c, task{"sort", map[string]int{"rows": 3}}, 1, 0)
		}
		t, st, err := banyan.RecvValue[task](c, 0, 0)
		fmt.Println(t.Name, t.Sizes["rows"], "from rank", st.Source)
		return err
	})
	// Output: sort 3 from rank 0
}

// Rank 2 dies. A rank that waits for it gets an error. The others go on, on a communicator of their
// own.
func ExampleProcFailedError() {
	err := banyan.Simulate(3, banyan.Simulation{
		Faults: banyan.Kill(2, time.Millisecond),
	}, func(w *banyan.World) error {
		c := w.Comm()
		_, err := c.Recv(make([]byte, 8), 2, 0) // rank 2 waits here when it is killed
		var failed *banyan.ProcFailedError
		if !errors.As(err, &failed) {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println("lost rank", failed.Ranks[0], "which was", failed.Cause)
		}
		living, err := c.Group().Exclude(failed.Ranks...)
		if err != nil {
			return err
		}
		rest, err := c.CreateGroup(living, 0)
		if err != nil {
			return err
		}
		n := []int{1}
		if err := banyan.Allreduce(rest, n, n, banyan.Sum); err != nil {
			return err
		}
		if rest.Rank() == 0 {
			fmt.Println(n[0], "go on")
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// lost rank 2 which was killed by SIGKILL
	// 2 go on
}

// An attribute keeps a library's state with a communicator: here duplicates share it, and a
// function runs when one ends.
func ExampleNewKey() {
	calls := banyan.NewKey(banyan.CopyValue[*int], func(c *banyan.Comm, n *int) error {
		fmt.Println(c.Name(), "ends after", *n, "calls")
		return nil
	})
	run(1, func(w *banyan.World) error {
		c := w.Comm()
		if err := banyan.SetAttr(c, calls, new(int)); err != nil {
			return err
		}
		d, err := c.Dup()
		if err != nil {
			return err
		}
		if n, ok := banyan.Attr(d, calls); ok {
			*n++
		}
		return d.Free()
	})
	// Output:
	// world.1 ends after 1 calls
	// world ends after 1 calls
}

// A handler sees every error of a communicator's operations, in addition to its caller.
func ExampleComm_SetErrorHandler() {
	run(1, func(w *banyan.World) error {
		c := w.Comm()
		c.SetErrorHandler(func(c *banyan.Comm, err error) { fmt.Println("told:", err) })
		_ = c.Send(nil, 5, 0) // the error is ignored here
		return nil
	})
	// Output: told: banyan: Send(dst 5, tag 0, 0 bytes) on world at rank 0: wrong argument: rank 5, want 0 … 0
}

// The idiom of a master: one receive from any source stays posted. When a worker dies the receive
// is pending; the master acknowledges the failure and waits again. No answer is lost.
func ExampleComm_AckFailed() {
	err := banyan.Simulate(3, banyan.Simulation{
		Faults: banyan.Kill(2, time.Millisecond),
	}, func(w *banyan.World) error {
		c := w.Comm()
		switch c.Rank() {
		case 1:
			w.Sleep(2 * time.Millisecond)
			return c.Send([]byte("answer"), 0, 0)
		case 2:
			_, err := c.Recv(nil, 0, 0) // killed here
			return err
		}
		if err := errors.Join(c.Send(nil, 1, 9), c.Send(nil, 2, 9)); err != nil {
			return err
		}
		buf := make([]byte, 6)
		r := c.Irecv(buf, banyan.AnySource, 0)
		for {
			st, err := r.Wait()
			if !errors.Is(err, banyan.ErrProcFailedPending) {
				fmt.Printf("%s of rank %d\n", buf, st.Source)
				return err
			}
			failed := c.FailedRanks()
			fmt.Println("dead:", failed) // the place to reassign its work
			if _, err := c.AckFailed(len(failed)); err != nil {
				return err
			}
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// dead: [2]
	// answer of rank 1
}

// Validate ends a block of collectives that succeeds at all ranks or at none, since its result is
// the same everywhere. Rank 2 dies in the block, so the other ranks repeat it.
func ExampleComm_Validate() {
	err := banyan.Simulate(4, banyan.Simulation{
		Faults: banyan.Kill(2, time.Millisecond),
	}, func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 2 {
			w.Sleep(time.Second) // killed here
		}
		for known := 0; ; {
			sum := []int{c.Rank()}
			berr := errors.Join(c.Barrier(), banyan.Allreduce(c, sum, sum, banyan.Sum))
			failed, err := c.Validate()
			if err != nil {
				return err
			}
			if failed.Size() == known {
				if c.Rank() == 0 {
					fmt.Println("sum of the living:", sum[0])
				}
				return berr
			}
			known = failed.Size()
			if c.Rank() == 0 {
				fmt.Println("once more, without", known)
			}
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// once more, without 1
	// sum of the living: 4
}

// mortal is Simulate for the examples of recovery: four ranks, of which rank 2 dies after a
// millisecond.
func mortal(body func(w *banyan.World) error) {
	err := banyan.Simulate(4, banyan.Simulation{
		Faults: banyan.Kill(2, time.Millisecond),
	}, body)
	if err != nil {
		log.Fatal(err)
	}
}

// The ranks sum until one of them dies. A rank with an error revokes, so that no rank waits for a
// rank that already recovers. The living ranks continue.
func ExampleComm_Shrink() {
	mortal(func(w *banyan.World) error {
		c := w.Comm()
		var err error
		for err == nil {
			err = banyan.Allreduce(c, []int{1}, make([]int, 1), banyan.Sum)
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
		if err := banyan.Allreduce(left, sum, sum, banyan.Sum); err != nil {
			return err
		}
		if left.Rank() == 0 {
			fmt.Printf("%d of %d ranks are left, the sum of their old ranks is %d\n", left.Size(), c.Size(), sum[0])
		}
		return left.Free()
	})
	// Output: 3 of 4 ranks are left, the sum of their old ranks is 4
}

// Agree returns one answer at all living ranks although a rank dies. Its error reports that some
// rank has not acknowledged the failure. After all have acknowledged it there is no error.
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
		if _, err := c.AckFailed(len(c.FailedRanks())); err != nil {
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
