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
	tagTurn  = iota // rank 0 to the victim: its turn has come
	tagMeet         // the victim to a survivor
	tagNever        // of no message
	tagDone         // a survivor to rank 0: it has noticed
	tagReady        // a survivor to rank 0: it is about to wait
)

// Rank is the part of each rank of a job that [Detection.Measure] has started; it writes its reports
// to out. A victim does not return.
func (o Detection) Rank(w *banyan.World, out io.Writer) error {
	if err := o.Check(); err != nil {
		return err
	}
	c := w.Comm()
	survivors := o.Ranks - 1
	if c.Size() <= survivors {
		return fmt.Errorf("fault detect: a job of %d ranks has no victim for %d survivors", c.Size(), survivors)
	}
	if c.Rank() >= survivors {
		return o.victim(c, out)
	}
	resumed := make(chan os.Signal, 1) // from the harness, when all have noticed
	signal.Notify(resumed, unix.SIGUSR1)
	defer signal.Stop(resumed)
	for v := survivors; v < c.Size(); v++ {
		if err := o.survive(c, v, out, resumed); err != nil {
			return err
		}
	}
	return nil
}

// comm makes the communicator of the survivors and one victim, which has the last rank.
func (o Detection) comm(c *banyan.Comm, victim int) (*banyan.Comm, error) {
	var ranks []int
	for i := range o.Ranks - 1 {
		ranks = append(ranks, i)
	}
	g, err := c.Group().Include(append(ranks, victim)...)
	if err != nil {
		return nil, err
	}
	return c.CreateGroup(g, victim)
}

// victim waits for its turn, and then to be killed.
func (o Detection) victim(c *banyan.Comm, out io.Writer) error {
	me := c.Rank()
	if _, err := c.Recv(nil, 0, tagTurn); err != nil {
		return err
	}
	r, err := o.comm(c, me)
	if err != nil {
		return err
	}
	memory, err := touched(o.VictimMB)
	if err != nil {
		return err
	}
	for i := range o.Ranks - 1 {
		if err := r.Send(nil, i, tagMeet); err != nil {
			return err
		}
	}
	if err := reportNote(out, sighting{Rank: me, PID: os.Getpid(), Cause: me}); err != nil {
		return err
	}
	_, err = r.Recv(nil, 0, tagNever)
	return errors.Join(fmt.Errorf("fault detect: victim %d with %d bytes was not killed", me, len(memory)), err)
}

// touched maps so many MiB of memory and writes to each page.
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
func (o Detection) survive(c *banyan.Comm, victim int, out io.Writer, resumed <-chan os.Signal) error {
	me := c.Rank()
	if me == 0 {
		if err := c.Send(nil, victim, tagTurn); err != nil {
			return err
		}
	}
	r, err := o.comm(c, victim)
	if err != nil {
		return err
	}
	last := r.Size() - 1
	if _, err := r.Recv(nil, last, tagMeet); err != nil {
		return err
	}
	// Otherwise the first survivors to notice all connect to rank 0 before it has noticed.
	if err := o.gather(c, tagReady); err != nil {
		return err
	}
	s := sighting{Rank: me, PID: os.Getpid(), Cause: victim}
	if err := reportNote(out, s); err != nil {
		return err
	}
	err = wait(r, o.Wait, last)
	at, cerr := machineClock()
	if cerr != nil {
		return cerr
	}
	if err := checkBlame(err, o.Wait, last); err != nil {
		return fmt.Errorf("fault detect: rank %d: %w", me, err)
	}
	s.At = at
	time.Sleep(reportAfter)
	if err := reportNote(out, s); err != nil {
		return err
	}
	hold(resumed, o.Timeout/2+reportTime)
	if err := r.Free(); err != nil {
		return err
	}
	return o.gather(c, tagDone)
}

// reportAfter is the time from a survivor's error to its report: where ranks share cores, the launcher
// that reads reports would delay the survivors that have not noticed yet.
const reportAfter = 20 * time.Millisecond

// reportTime bounds the time from a survivor's error to the arrival of its report.
const reportTime = reportAfter + time.Second

// hold keeps a survivor idle until all have noticed: where ranks share cores, its work would delay
// the others. The limit lets a job with a failed rank end by itself with that rank's error.
func hold(resumed <-chan os.Signal, most time.Duration) {
	limit := time.NewTimer(most)
	defer limit.Stop()
	select {
	case <-resumed:
	case <-limit.C:
	}
}

// gather holds rank 0 until all survivors have reached it, so that rounds do not overlap.
func (o Detection) gather(c *banyan.Comm, tag int) error {
	if c.Rank() != 0 {
		return c.Send(nil, 0, tag)
	}
	for i := 1; i < o.Ranks-1; i++ {
		if _, err := c.Recv(nil, i, tag); err != nil {
			return err
		}
	}
	return nil
}

// wait returns the error that reports the death to a survivor.
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

// checkBlame checks that an error names the victim and no other rank.
func checkBlame(err error, how Wait, victim int) error {
	if how == ForAny && errors.Is(err, banyan.ErrProcFailedPending) {
		return nil
	}
	var failed *banyan.ProcFailedError
	if !errors.As(err, &failed) || !slices.Equal(failed.Ranks, []int{victim}) {
		return fmt.Errorf("the operation ended with %v, want that rank %d failed", err, victim)
	}
	return nil
}
