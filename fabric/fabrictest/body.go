package fabrictest

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Case is one property that every provider must have.
type Case struct {
	Name  string
	About string // the sentence of the contract that it checks
	N     int    // processes
	// Victims are killed at random moments, in each of Budget.Kills runs.
	Victims []proc.ID
	// Repeat: the case runs Budget.Rounds times, because it depends on chance.
	Repeat bool
	// Args of the job; nil for none.
	Args func(b Budget) map[string]int64
	// Isolated cases need an address space for each process.
	Isolated bool
	// Body runs in every process. When it returns the process departs, unless it has, and closes
	// its provider.
	Body func(e *Env)
	// Reaches are kinds of records. The runs of a repeated case together must produce a positive
	// value of each: otherwise chance has missed the situation that the case is about.
	Reaches []string
	// Check looks at the outcomes, beyond the checks of every case; may be nil.
	Check func(outs []Outcome) error
}

// Cases is the suite, in the order in which it runs.
func Cases() []Case {
	var all []Case
	for _, part := range [][]Case{
		hostCases(), connectCases(), trafficCases(), largeCases(), blockCases(), moveCases(), fetchCases(), pressureCases(),
		wakeCases(), concurrencyCases(), endCases(), deathCases(), cutCases(), informCases(),
	} {
		all = append(all, part...)
	}
	return all
}

// ownCases are the cases of this package's own tests.
var ownCases []Case

func findCase(name string) (Case, error) {
	for _, c := range append(Cases(), ownCases...) {
		if c.Name == name {
			return c, nil
		}
	}
	return Case{}, fmt.Errorf("fabrictest: there is no case %q", name)
}

// Play runs the body of the job's case in this process, then departs and closes. Failed checks, and
// panics of the code under test, become records. Drivers call it, in the process. It reports
// whether all went well.
func (e *Env) Play() bool {
	return e.Guard(func() {
		c, err := findCase(e.Job.Case)
		e.Check(err == nil, "%v", err)
		c.Body(e)
		e.Depart()
		e.Close()
	})
}

// Guard runs fn, of the body or of an activity that it started, and turns a failed check or a panic
// into a record. Panics with a value that is neither an error nor a string pass: a driver may
// unwind a killed process so.
func (e *Env) Guard(fn func()) (ok bool) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			ok = false
		case error, string:
			ok = false
			e.Control.Record(Record{Kind: recordFail, Text: fmt.Sprintf("panic: %v\n%s", r, debug.Stack())})
		default:
			panic(r)
		}
	}()
	fn()
	return true
}

// Depart departs, once.
func (e *Env) Depart() {
	if !e.departed && !e.closed {
		e.departed = true
		e.Provider.Depart()
	}
}

// Close closes the provider, once, and makes the calls that a closed one must refuse.
func (e *Env) Close() {
	if e.closed {
		return
	}
	e.bell.Lock()
	e.closed = true
	e.bell.Unlock()
	err := e.Provider.Close()
	e.Check(err == nil, "Close: %v", err)
	err = e.Provider.Close()
	e.Check(err == nil || errors.Is(err, fabric.ErrClosed), "the second Close: %v", err)
	next := proc.ID((int(e.ID) + 1) % e.Job.N)
	_, err = e.Provider.Connect(fabric.ConnectSpec{Peer: next, Address: e.Addrs[next]})
	e.Check(errors.Is(err, fabric.ErrClosed), "Connect after Close: %v", err)
	e.Provider.Depart()
	e.Check(e.Provider.Poll(&e.sink) == 0, "Poll after Close finds something")
	for i := range e.peers {
		if c := e.peers[i].conn; c != nil {
			e.Check(!c.TrySend(rawClass, 0, nil), "TrySend after Close takes a frame")
			e.Check(c.Get(make([]byte, 1), fabric.Region{Addr: 1, Len: 1}, 0) != nil, "Get after Close succeeds")
		}
	}
}
