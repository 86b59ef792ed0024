package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// launcher is the interface to the launcher during the start: a *join.Job, or the simulator's.
type launcher interface {
	Rank() int
	Size() int
	Node(rank int) (int, bool)
	Put(ctx context.Context, key string, value []byte) error
	Get(ctx context.Context, peer int, key string) ([]byte, error)
	GetRange(ctx context.Context, first, count int, key string) ([][]byte, error)
	Secret(ctx context.Context) ([]byte, error)
	Fence(ctx context.Context) error
	SparesDead() bool
	Lose(ctx context.Context, rank int) error
	Finalize(ctx context.Context) error
	Abort(code int, why string) error
}

// launched is the bootstrap by a launcher.
type launched struct {
	launcher
	host  fabric.Host // set before the first card is asked for
	self  route.Card
	nodes *route.Topology
	// memory has the cards of the ranks that share it; nil: none.
	memory *shm.Provider
	// lost are ranks that have died between the fences of the start; of many the first.
	lost    []int
	connLog *connLog     // nil: no log
	log     *slog.Logger // the same

	key      string // under which cards are found
	cards    cards
	warnings sync.WaitGroup // warnings that are being written
}

// The keys under which ranks publish.
const (
	// firstCard: a rank's card, before it has opened sockets.
	firstCard = "card"
	// topology: rank 0's survey of the cards.
	topology = "topology"
	// fullCard: the card again, with the address of the sockets.
	fullCard = "card2"
)

// here is the card of this process without its addresses.
func here(o *Options, job launcher) (c route.Card, err error) {
	if c.Allowed, err = o.allowed(os.Getenv); err != nil {
		return c, err
	}
	if c.Node, err = route.Here(); err != nil {
		return c, err
	}
	cpus, err := affinity.Allowed()
	if err != nil {
		return c, err
	}
	for _, cpu := range cpus {
		for len(c.Cores) <= cpu/8 {
			c.Cores = append(c.Cores, 0)
		}
		c.Cores[cpu/8] |= 1 << (cpu % 8)
	}
	if !first(job) { // if 64 ranks of one machine all look, the last is ready 50 ms later
		return c, nil
	}
	if quota, limited := affinity.Quota(); limited {
		c.Quota = uint32(max(1, min(1000*quota, 1<<31)))
	}
	return c, nil
}

// first reports whether this is the first rank of those that the launcher has put on one machine.
func first(job launcher) bool {
	for rank := range job.Rank() {
		node, said := job.Node(rank)
		if here, _ := job.Node(job.Rank()); !said || node == here {
			return false
		}
	}
	return true
}

// exchange publishes this rank's card, waits for the others, and learns which ranks share a node
// and whether sockets are needed. Rank 0 surveys the cards and publishes the result: if each rank
// read all cards the launcher would need quadratic time.
func (l *launched) exchange(ctx context.Context) error {
	if l.Size() == 1 {
		l.nodes = route.One(1)
		return nil
	}
	if l.Rank() == 0 {
		// Before the fence without which there is no job: a rank that dies later has left it to the
		// others.
		if _, err := l.Secret(ctx); err != nil {
			return err
		}
	}
	if err := l.publish(ctx); err != nil {
		return err
	}
	err := l.launcher.Fence(ctx)
	if err != nil {
		return err
	}
	if l.Rank() == 0 {
		if l.nodes, err = l.survey(ctx); err != nil {
			return err
		}
		if err := l.Put(ctx, topology, l.nodes.Encode()); err != nil {
			return err
		}
	}
	if err := l.next(ctx); err != nil {
		return err
	}
	if l.Rank() == 0 {
		return l.alike()
	}
	said, err := l.Get(ctx, 0, topology)
	switch {
	case errors.Is(err, join.ErrNotFound): // it died before it could publish a reason
		l.nodes, err = l.survey(ctx)
	case err == nil:
		l.nodes, err = route.DecodeTopology(said, l.Size())
	}
	if err != nil {
		return err
	}
	return l.alike()
}

// alike is the error of ranks that differ in a setting that all have alike. All ranks get it.
func (l *launched) alike() error {
	if l.nodes.Differs == 0 {
		return nil
	}
	what, cure := "debug", "set BANYAN_DEBUG or WithDebug alike on all ranks"
	if l.nodes.In == route.InAlgorithms {
		what = "their tables of collectives' algorithms"
		cure = "give all ranks the same rules by coll.algorithms, BANYAN_COLL_ALGORITHMS or WithAlgorithms, or none"
	}
	return fmt.Errorf("%w: rank 0 and rank %d differ in %s: %s", ft.ErrArgument, l.nodes.Differs, what, cure)
}

// next is a fence of the start after the first one: the death of a rank meanwhile does not stop the
// others.
func (l *launched) next(ctx context.Context) error {
	err := l.launcher.Fence(ctx)
	if missing, ok := errors.AsType[*join.MissingError](err); ok {
		for _, lost := range missing.Lost {
			l.lost = append(l.lost, lost.Rank)
		}
		return nil
	}
	return err
}

// sockets opens the sockets that reach ranks without shared memory, and publishes their address.
// Where all ranks share memory no rank opens sockets: they cost descriptors, and a port that others
// can reach. All ranks decide alike, as all have one topology.
func (l *launched) sockets(ctx context.Context, c *config, set *settings.Set, h fabric.Host) (fabric.Provider, error) {
	if !l.nodes.Apart {
		l.unneeded(&c.Options)
		return nil, nil
	}
	var p fabric.Provider
	if l.self.Allowed&route.Sockets != 0 {
		secret, err := l.Secret(ctx)
		if err != nil {
			return nil, err
		}
		cfg := tcpConfig(set)
		cfg.Self, cfg.MaxProcs, cfg.Secret, cfg.Ring = proc.ID(l.Rank()), l.Size(), secret, h.Ring
		cfg.Inet, cfg.Unix = l.self.Allowed&route.Of(route.TCP, route.Verbs) != 0, l.self.Allowed.Has(route.Unix)
		cfg.Networks, cfg.Log = c.listed(os.Getenv), l.connLog.ofSockets()
		cfg.Warn, cfg.Shared = l.warnf, l.nodes.Crowded(l.Node(l.Rank()))
		cfg.Patience = c.detector.patience()
		if cfg.Inet {
			if err := l.awaitNetworks(ctx, cfg.Networks); err != nil {
				return nil, err
			}
		}
		if p, err = l.openSockets(cfg); err != nil {
			return nil, err
		}
		if cfg.Inet {
			l.self.Enclosed = enclosed(cfg.Networks)
		}
		l.self.Addresses = append(l.self.Addresses, route.Address{Provider: p.Name(), Blob: p.Address()})
	}
	if err := l.complete(ctx); err != nil {
		if p != nil {
			err = errors.Join(err, p.Close())
		}
		return nil, err
	}
	return p, nil
}

// complete publishes the card again, with all addresses, and waits until the others have done so.
func (l *launched) complete(ctx context.Context) error {
	l.key = fullCard
	if err := l.publish(ctx); err != nil {
		return err
	}
	return l.next(ctx)
}

func (l *launched) survey(ctx context.Context) (*route.Topology, error) {
	return route.Survey(l.Size(), func(rank int) (*route.Card, error) { return l.fetch(ctx, rank) })
}

// Fence implements bootstrap. Banyan's own launchers answer a rank that is in a fence. Others do
// not, and their fences wait for failed ranks; but the ranks must reach others without an address
// then: the detector its neighbours, and all ranks those that may have failed. So the cards of all
// are read first.
func (l *launched) Fence(ctx context.Context) error {
	if !l.SparesDead() {
		if err := l.readAll(ctx); err != nil {
			return err
		}
	}
	return l.launcher.Fence(ctx)
}

// Node implements bootstrap.
func (l *launched) Node(rank int) int { return l.nodes.Node(rank) }

// Crowded implements bootstrap.
func (l *launched) Crowded() bool {
	for node := range l.nodes.Nodes() {
		if l.nodes.Crowded(node) {
			return true
		}
	}
	return false
}

// ByNode implements bootstrap.
func (l *launched) ByNode() bool { return l.nodes.Nodes() > 1 }

// Expire implements bootstrap.
func (l *launched) Expire(why error) {
	lastWords(fmt.Sprintf("rank %d ends itself: %v", l.Rank(), why))
	os.Exit(ExitFenced)
}

// Abort implements bootstrap.
func (l *launched) Abort(code int, why string) {
	lastWords(why)
	_ = l.launcher.Abort(code, why) // the parent of this rank sees how it exits
	os.Exit(code)
}
