package progress

// A process that has polled in vain for dryRunFirst checks for deaths, about half a millisecond, calls the function of
// OnLongWait, and again after dryRunGap more, some milliseconds. Any wait that is answered earlier begins anew.
const (
	dryRunFirst = 1 << 9
	dryRunGap   = 1 << 12
)

// OnLongWait has fn called, with the lock held, now and then while a goroutine polls in vain on a core of its own.
// It is called before there are peers.
func (e *Engine) OnLongWait(fn func()) { e.longWait = fn }

// polledInVain counts checks for deaths between two events.
func (e *Engine) polledInVain() {
	if e.vain++; e.vain != dryRunFirst || e.longWait == nil {
		return
	}
	e.vain = -dryRunGap
	if !e.pollsLong {
		e.pollsLong = true
		e.shm.SetPolling(true)
	}
	e.longWait()
	e.shm.CheckDeaths()
}

// stopPollingIfIdle is stopPolling for a process that has not polled since the last call: it computes.
func (e *Engine) stopPollingIfIdle() {
	switch {
	case e.vain == e.vainBefore:
		e.stopPolling()
	case e.pollsLong: // perhaps in a call now and then
		e.shm.CheckDeaths()
	}
	e.vainBefore = e.vain
}

// stopPolling notes that this process looks for deaths no more.
func (e *Engine) stopPolling() {
	if e.pollsLong {
		e.pollsLong = false
		e.shm.SetPolling(false)
	}
}
