package fault

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
)

// The tags of a round's messages.
const (
	tagTurn = iota // rank 0 to the victim: it is your turn
	tagMeet        // the victim to a survivor
	tagNever
	tagDone  // a survivor to rank 0: it has noticed
	tagReady // a survivor to rank 0: it is about to wait
)

// Rank is what each rank of a job does that Detect has started; it writes what the
// harness is to know to out, a line at a time. A victim does not return.
func Rank(w *banyan.World, o Options, out io.Writer) error {
	if err := o.Check(); err != nil {
		return err
	}
	c := w.Comm()
	survivors := o.Ranks - 1
	if c.Size() <= survivors {
		return fmt.Errorf("fault detect: a job of %d ranks has no victim for %d survivors", c.Size(), survivors)
	}
	if c.Rank() >= survivors {
		return victim(c, o, out)
	}
	// The harness sends it when all have noticed.
	onward := make(chan os.Signal, 1)
	signal.Notify(onward, unix.SIGUSR1)
	defer signal.Stop(onward)
	for v := survivors; v < c.Size(); v++ {
		if err := survive(c, v, o, out, onward); err != nil {
			return err
		}
	}
	return nil
}

// round is the communicator of the survivors and one victim, who has the last rank.
func round(c *banyan.Comm, victim, survivors int) (*banyan.Comm, error) {
	ranks := make([]int, survivors, survivors+1)
	for i := range ranks {
		ranks[i] = i
	}
	g, err := c.Group().Include(append(ranks, victim)...)
	if err != nil {
		return nil, err
	}
	return c.CreateGroup(g, victim)
}

// victim waits for its turn, and then to be killed.
func victim(c *banyan.Comm, o Options, out io.Writer) error {
	me, survivors := c.Rank(), o.Ranks-1
	if _, err := c.Recv(nil, 0, tagTurn); err != nil {
		return err
	}
	r, err := round(c, me, survivors)
	if err != nil {
		return err
	}
	memory, err := touched(o.VictimMB)
	if err != nil {
		return err
	}
	for i := range survivors {
		if err := r.Send(nil, i, tagMeet); err != nil {
			return err
		}
	}
	if err := (line{rank: me, pid: os.Getpid(), victim: me}).write(out); err != nil {
		return err
	}
	_, err = r.Recv(nil, 0, tagNever)
	return errors.Join(fmt.Errorf("fault detect: victim %d with %d bytes was not killed", me, len(memory)), err)
}

// touched gives so many MiB of memory of which each page has been written to.
func touched(mb int) ([]byte, error) {
	if mb == 0 {
		return nil, nil
	}
	b, err := unix.Mmap(-1, 0, mb<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("fault detect: %d MiB for a victim: %w", mb, err)
	}
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	return b, nil
}

// survive is one round of a survivor.
func survive(c *banyan.Comm, victim int, o Options, out io.Writer, onward <-chan os.Signal) error {
	me := c.Rank()
	if me == 0 {
		if err := c.Send(nil, victim, tagTurn); err != nil {
			return err
		}
	}
	r, err := round(c, victim, o.Ranks-1)
	if err != nil {
		return err
	}
	last := r.Size() - 1
	if _, err := r.Recv(nil, last, tagMeet); err != nil {
		return err
	}
	// Else those who notice first would all connect to rank 0 at once, to say so, before it has noticed.
	if err := together(c, o.Ranks-1, tagReady); err != nil {
		return err
	}
	if err := (line{rank: me, pid: os.Getpid(), victim: victim}).write(out); err != nil {
		return err
	}
	err = wait(r, o.Wait, last)
	at, cerr := now()
	if cerr != nil {
		return cerr
	}
	if err := rightly(err, o.Wait, last); err != nil {
		return fmt.Errorf("fault detect: rank %d: %w", me, err)
	}
	if err := (line{rank: me, pid: os.Getpid(), victim: victim, at: at}).write(out); err != nil {
		return err
	}
	hold(onward, o.Timeout/2)
	if err := r.Free(); err != nil {
		return err
	}
	return together(c, o.Ranks-1, tagDone)
}

// hold keeps a survivor that has noticed from everything else until all have: where ranks
// share cores, what it did would be measured as the others' delay. It has a limit, so that a job of
// which a rank has failed ends by itself and says why.
func hold(onward <-chan os.Signal, most time.Duration) {
	limit := time.NewTimer(most)
	defer limit.Stop()
	select {
	case <-onward:
	case <-limit.C:
	}
}

// together holds rank 0 back until all survivors are as far as that: have noticed, so that
// nothing of the next round disturbs this one, or are about to wait.
func together(c *banyan.Comm, survivors, tag int) error {
	if c.Rank() != 0 {
		return c.Send(nil, 0, tag)
	}
	for i := 1; i < survivors; i++ {
		if _, err := c.Recv(nil, i, tag); err != nil {
			return err
		}
	}
	return nil
}

// wait returns the error by which a survivor learns of the death.
func wait(r *banyan.Comm, how Wait, victim int) (err error) {
	switch how {
	case InBarrier:
		return r.Barrier()
	case Polling:
		req := r.Irecv(nil, victim, tagNever)
		for done := false; !done; {
			_, done, err = req.Test()
		}
		return err
	case ForAny:
		victim = banyan.AnySource
	}
	_, err = r.Recv(nil, victim, tagNever)
	return err
}

// rightly checks that an error blames the victim and nobody else.
func rightly(err error, how Wait, victim int) error {
	if how == ForAny && errors.Is(err, banyan.ErrProcFailedPending) {
		return nil
	}
	var failed *banyan.ProcFailedError
	if !errors.As(err, &failed) || !slices.Equal(failed.Ranks, []int{victim}) {
		return fmt.Errorf("the operation ended with %v, want that rank %d failed", err, victim)
	}
	return nil
}

// now reads the clock that all processes of the machine share, in nanoseconds.
func now() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("fault detect: read the clock: %w", err)
	}
	return ts.Nano(), nil
}
