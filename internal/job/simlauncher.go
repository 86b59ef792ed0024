package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// SimulatedLauncher is the launcher of a simulated job. The root package documents its fields.
type SimulatedLauncher struct {
	Latency time.Duration
	Strict  bool
	Late    func(rank, fence int) time.Duration
	// Deaf is a mutant: a rank that is in a fence gets no answers, as if the launcher were strict.
	Deaf bool
}

// simServer is the launcher of a simulated job. One of all activities runs at a time.
type simServer struct {
	SimulatedLauncher
	machine *sim.Sim
	kv      map[string][]byte
	inside  []*simLauncher // by rank: those in the fence; nil: it is not
	started bool           // the first fence has ended with all
	broken  *join.MissingError
}

func newSimServer(l SimulatedLauncher, machine *sim.Sim, size int) *simServer {
	s := &simServer{
		SimulatedLauncher: l, machine: machine, kv: make(map[string][]byte), inside: make([]*simLauncher, size),
	}
	machine.OnEnd(func(proc.ID) { s.settle() })
	return s
}

// settle ends the fence if all expected ranks have come. The first fence fails when a rank has
// ended that has not come.
func (s *simServer) settle() {
	var lost join.MissingError
	come := 0
	for rank, l := range s.inside {
		cause, ended := s.machine.Ended(proc.ID(rank))
		switch {
		case l != nil:
			come++
		case s.Strict || !ended && s.started:
			return
		case ended && (cause.Failed() || !s.started):
			lost.Lost = append(lost.Lost, join.Lost{Rank: rank, Why: cause.String()})
		}
	}
	lost.Total = len(lost.Lost)
	switch {
	case come == 0:
		return
	case !s.started && lost.Total > 0:
		s.broken = &lost
	case !s.started && come < len(s.inside):
		return
	}
	s.started = s.broken == nil
	for rank, l := range s.inside {
		if l == nil {
			continue
		}
		if lost.Total > 0 {
			l.lost = &lost
		}
		s.inside[rank] = nil
		l.out.Unpark()
	}
}

// simLauncher is a rank's connection to its simulated launcher.
type simLauncher struct {
	*simServer
	rank   int
	host   fabric.Host
	busy   bool            // a request is under way
	turns  []fabric.Parker // the requests that wait for their turn
	fences int             // entered
	out    fabric.Parker   // unparked at the end of the fence
	lost   *join.MissingError
	broken error // a fence was given up
}

func (l *simLauncher) begin() error {
	for l.busy {
		turn := l.host.NewParker()
		l.turns = append(l.turns, turn)
		turn.Park()
	}
	l.busy = true
	if l.broken != nil {
		l.end()
	}
	return l.broken
}

func (l *simLauncher) end() {
	l.busy = false
	if len(l.turns) > 0 {
		next := l.turns[0]
		l.turns = l.turns[1:]
		next.Unpark()
	}
}

// request waits for a request's time, and then calls do.
func (l *simLauncher) request(do func() error) error {
	if err := l.begin(); err != nil {
		return err
	}
	defer l.end()
	l.host.Pause(fabric.Time(l.Latency))
	return do()
}

// Rank implements launcher, as the following methods do.
func (l *simLauncher) Rank() int { return l.rank }

// Size is the number of ranks.
func (l *simLauncher) Size() int { return len(l.inside) }

// Node is not known to it.
func (l *simLauncher) Node(int) (int, bool) { return 0, false }

// Put publishes a value.
func (l *simLauncher) Put(_ context.Context, key string, value []byte) error {
	return l.request(func() error {
		l.kv[fmt.Sprint(l.rank, " ", key)] = slices.Clone(value)
		return nil
	})
}

// GetRange implements launcher: without a request nothing is gained.
func (l *simLauncher) GetRange(context.Context, int, int, string) ([][]byte, error) { return nil, nil }

// Get gives a value.
func (l *simLauncher) Get(_ context.Context, peer int, key string) (value []byte, err error) {
	err = l.request(func() error {
		var there bool
		if value, there = l.kv[fmt.Sprint(peer, " ", key)]; !there {
			return fmt.Errorf("%s of rank %d: %w", key, peer, join.ErrNotFound)
		}
		return nil
	})
	return value, err
}

// Secret is none.
func (l *simLauncher) Secret(context.Context) ([]byte, error) {
	return make([]byte, join.SecretLen), l.request(func() error { return nil })
}

// SparesDead reports whether a fence ends without dead ranks.
func (l *simLauncher) SparesDead() bool { return !l.Strict }

// Lose implements launcher: see simulated.
func (l *simLauncher) Lose(context.Context, int) error { return nil }

// fencePause is how often a rank in the fence of a strict launcher checks its context.
const fencePause = fabric.Time(time.Millisecond)

// Fence waits for all ranks.
func (l *simLauncher) Fence(ctx context.Context) error {
	if l.Late != nil {
		l.host.Pause(fabric.Time(l.Late(l.rank, l.fences)))
	}
	l.fences++
	if err := l.begin(); err != nil {
		return err
	}
	if l.Strict || l.Deaf {
		defer l.end()
	}
	l.host.Pause(fabric.Time(l.Latency / 2))
	if l.simServer.broken != nil {
		return l.simServer.broken
	}
	l.out, l.lost = l.host.NewParker(), nil
	l.inside[l.rank] = l
	l.settle()
	if !l.Strict && !l.Deaf {
		l.end()
	}
	for l.inside[l.rank] != nil {
		if !l.Strict {
			l.out.Park()
			continue
		}
		l.out.ParkUntil(l.host.Now() + fencePause)
		if err := ctx.Err(); err != nil {
			l.broken = fmt.Errorf("an earlier fence was given up: %w", err)
			return err
		}
	}
	l.host.Pause(fabric.Time(l.Latency / 2))
	if l.lost != nil {
		return l.lost
	}
	return nil
}

// Finalize takes leave.
func (l *simLauncher) Finalize(context.Context) error {
	l.broken = nil
	return l.request(func() error { return nil })
}

// Abort is the bootstrap's.
func (l *simLauncher) Abort(int, string) error { return errors.ErrUnsupported }

// simulatedLaunch is the bootstrap of a simulated rank that has a launcher.
type simulatedLaunch struct {
	simulated
	l *launched
}

// join starts a simulated rank as a real one starts.
func (s simulated) join(server *simServer, provider string) (*simulatedLaunch, error) {
	host, node := s.proc.Host(), s.Node(s.rank)
	l := &launched{launcher: &simLauncher{simServer: server, rank: s.rank, host: host}, host: host, key: firstCard}
	l.self = route.Card{
		Node:      route.Node{Name: fmt.Sprint("node ", node), Boot: [16]byte{byte(node), byte(node >> 8), byte(node >> 16)}},
		Addresses: []route.Address{{Provider: provider, Blob: sim.Address(proc.ID(s.rank))}},
	}
	if err := l.exchange(context.Background()); err != nil {
		return nil, err
	}
	return &simulatedLaunch{s, l}, l.complete(context.Background())
}

// Address implements bootstrap: the launcher has it.
func (s *simulatedLaunch) Address(provider string, peer proc.ID) ([]byte, error) {
	c, err := s.l.card(peer)
	if err != nil {
		return nil, err
	}
	return c.Address(provider), nil
}

// Fence implements bootstrap.
func (s *simulatedLaunch) Fence(ctx context.Context) error { return s.l.Fence(ctx) }

// SparesDead implements bootstrap.
func (s *simulatedLaunch) SparesDead() bool { return s.l.SparesDead() }

// Finalize implements bootstrap.
func (s *simulatedLaunch) Finalize(ctx context.Context) error { return s.l.launcher.Finalize(ctx) }
