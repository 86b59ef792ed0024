package fault

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// SilenceRank is what each rank of a job does that Silence has started: it waits for
// messages from all ranks of the host that falls silent, and says when all of these have
// ended with an error. On that host it waits until the detector ends it.
func SilenceRank(w *banyan.World, o SilenceOptions, out io.Writer) error {
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
	said := line{rank: c.Rank(), pid: os.Getpid()}
	if slices.Contains(victims, c.Rank()) {
		said.victim = 1
		if err := said.write(out); err != nil {
			return err
		}
		_, err := c.Recv(nil, (victims[len(victims)-1]+1)%c.Size(), tagNever)
		return errors.Join(fmt.Errorf("fault silence: rank %d goes on though it was cut off", c.Rank()), err)
	}
	waits := make([]banyan.Request, len(victims))
	for i, v := range victims {
		waits[i] = c.Irecv(nil, v, tagNever)
	}
	if err := said.write(out); err != nil {
		return err
	}
	for i := range waits {
		if _, err := waits[i].Wait(); rightly(err, ForVictim, victims[i]) != nil {
			return fmt.Errorf("fault silence: rank %d: %w", c.Rank(), rightly(err, ForVictim, victims[i]))
		}
	}
	var err error
	if said.at, err = now(); err != nil {
		return err
	}
	return said.write(out)
}
