package detect

import (
	"fmt"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// EndError is why this process must end. No method returns it; it is part of an Action.
type EndError struct {
	// Partition: this process was on the losing side, with With of Of processes, itself included.
	// Otherwise process By reported that this process counts as failed there.
	Partition bool
	With, Of  int
	By        proc.ID
	// Stopped is the longest time for which this process did not run, as far as the detector
	// noticed.
	Stopped fabric.Time
	Timeout fabric.Time
}

// Error names the cause, the setting that decides, and the other process by its world rank, which a
// user knows.
func (e *EndError) Error() string {
	held := ""
	if e.Stopped > 0 {
		held = fmt.Sprintf(" (it did not run for %s, as if stopped or starved)", seconds(e.Stopped))
	}
	if e.Partition {
		return fmt.Sprintf("this process can reach only %d of %d processes, itself included, for longer than "+
			"detect.timeout (%s)%s: the other side of the partition continues and counts this one as dead; "+
			"detect.partition=off lets every side continue", e.With, e.Of, seconds(e.Timeout), held)
	}
	return fmt.Sprintf("this process counts as dead at rank %d, where nothing was heard of it for longer "+
		"than detect.timeout (%s)%s: it must not continue; raise detect.timeout if processes are to survive "+
		"longer silences", e.By, seconds(e.Timeout), held)
}

// seconds formats a time without package time, which pure logic does not import.
func seconds[T ~int64](t T) string {
	return fmt.Sprintf("%.4gs", float64(t)/1e9)
}
