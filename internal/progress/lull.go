package progress

import "github.com/banyan-hpc/banyan/fabric"

// lull finds out whether other processes want the core. On a node with more processes than cores a
// wait yields at every poll, but the others may sleep: then each yield returns at once, and polling
// between two of them delays no process.
type lull struct {
	cheap int // yields in a row that returned at once
	polls int // between two yields
	left  int // polls until the next yield
}

const (
	// cheapYield is the longest yield without a switch to another process, some three times the
	// usual one.
	cheapYield fabric.Time = 1500
	// cheapYields is the number of them after which a wait polls in between, at first leastLull and
	// at last mostLull times: 40 µs or less.
	cheapYields = 16
	leastLull   = 64
	mostLull    = 1024
)

// yielded adapts to a yield of that length. It reports whether a wait begins or ceases to poll
// between yields.
func (l *lull) yielded(took fabric.Time) bool {
	before := l.polls
	switch l.cheap++; {
	case took > cheapYield:
		l.cheap, l.polls = 0, 0
	case l.cheap >= cheapYields:
		l.polls = min(max(2*l.polls, leastLull), mostLull)
	}
	l.left = l.polls
	return (before == 0) != (l.polls == 0)
}
