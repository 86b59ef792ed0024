package fault

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/banyan-hpc/banyan"
)

// Rank is the part of each rank of a job that [Silence.Measure] has started. It waits for messages
// from all ranks of the silent host and reports when all these receives have failed. On that host it
// waits until the detector ends it.
func (o Silence) Rank(w *banyan.World, out io.Writer) error {
	c := w.Comm()
	var victims []int
	for rank := range c.Size() {
		if w.Node(rank) == o.Silent {
			victims = append(victims, rank)
		}
	}
	if c.Size() != o.Ranks || len(victims) == 0 || 2*len(victims) >= c.Size() {
		return fmt.Errorf("fault silence: ranks %v of %d are on host %d", victims, c.Size(), o.Silent)
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	s := sighting{Rank: c.Rank(), PID: os.Getpid(), Cause: o.Silent, Silent: w.Node(c.Rank()) == o.Silent}
	if s.Silent {
		if err := reportNote(out, s); err != nil {
			return err
		}
		_, err := c.Recv(nil, (victims[len(victims)-1]+1)%c.Size(), tagNever)
		return errors.Join(fmt.Errorf("fault silence: rank %d continues though it was cut off", c.Rank()), err)
	}
	waits := make([]banyan.Request, len(victims))
	for i, v := range victims {
		waits[i] = c.Irecv(nil, v, tagNever)
	}
	if err := reportNote(out, s); err != nil {
		return err
	}
	for i := range waits {
		_, err := waits[i].Wait()
		if err := checkBlame(err, ForVictim, victims[i]); err != nil {
			return fmt.Errorf("fault silence: rank %d: %w", c.Rank(), err)
		}
	}
	var err error
	if s.At, err = machineClock(); err != nil {
		return err
	}
	return reportNote(out, s)
}
