package banyan

import "time"

// Detection is how this rank learns that others have died, for people who look after
// a job.
type Detection struct {
	// On: ranks observe each other and tell each other of deaths. Else each knows only of
	// the ends that it sees for itself, and Period to Partition are zero.
	On bool
	// Period is the time between two heartbeats, Timeout the silence that is death: those in
	// force, which are longer than the settings' where Longer says so.
	Period, Timeout time.Duration
	// Longer is by how much the default of the timeout has been multiplied because ranks
	// share cores; 1: it has not.
	Longer int
	// Partition is the rule for ranks that fall silent together: "majority" or "off".
	Partition string
	// Evidence is what tells first of the death of a rank on this machine: "the kernel's
	// record", "robust words", "pidfd", or "connection" where this rank has no shared
	// memory. Between machines it is always a connection's end.
	Evidence string
}

// Detection says how deaths are found here. Any goroutine may call it at any time.
func (w *World) Detection() Detection {
	if w.absent() {
		return Detection{}
	}
	return Detection(w.job.Detection())
}
