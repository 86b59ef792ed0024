package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// foundCard is the card of a rank, or why there is none.
type foundCard struct {
	card *route.Card
	err  error
}

// cards are the cards of peers that have been read.
type cards struct {
	mu     sync.Mutex  // not held during requests to the launcher
	last   *route.Card // the last one
	owner  proc.ID     // its rank
	all    []foundCard // by rank, after readAll
	some   []foundCard // by rank, after so many requests that whole blocks are read
	single int         // requests for one card
	asking int         // requests under way
}

// cardBlock is the number of cards in one request, about as many as a reply holds. Cards are read in
// blocks by a rank that has read some one by one, more of them in a job with more blocks: it may talk
// to all peers, and the launcher would get as many requests as there are pairs.
const cardBlock = 32

// fetchBlock reads the card of a rank together with its neighbours', and returns nil if the launcher
// does not provide that.
func (l *launched) fetchBlock(ctx context.Context, rank int) (*route.Card, error) {
	first := rank - rank%cardBlock
	for {
		values, err := l.GetRange(ctx, first, min(cardBlock, l.Size()-first), l.key)
		if err != nil || len(values) == 0 {
			return nil, err
		}
		l.cards.mu.Lock()
		if l.cards.some == nil {
			l.cards.some = make([]foundCard, l.Size())
		}
		for i, value := range values {
			if value == nil {
				continue
			}
			c, err := route.DecodeCard(value)
			if err == nil {
				l.cards.some[first+i].card = &c
			}
		}
		found := l.cards.some[rank].card
		l.cards.mu.Unlock()
		if found != nil || rank < first+len(values) {
			return found, nil
		}
		first += len(values)
	}
}

// publish shows this rank's card to the others: in the memory that it shares with ranks of its machine, and by the
// launcher to all.
func (l *launched) publish(ctx context.Context) error {
	card := l.self.Encode()
	if l.memory != nil {
		l.memory.PutCard(l.edition(), card)
	}
	return l.Put(ctx, l.key, card)
}

// edition is the number of the card that l.key names.
func (l *launched) edition() int {
	if l.key == fullCard {
		return 1
	}
	return 0
}

// shared is the card of a rank that has it in the memory of this machine's ranks; else nil, and the launcher
// has it if there is one.
func (l *launched) shared(rank int) *route.Card {
	if l.memory == nil {
		return nil
	}
	if b := l.memory.Card(l.edition(), proc.ID(rank)); b != nil {
		if c, err := route.DecodeCard(b); err == nil {
			return &c
		}
	}
	return nil
}

// fetch reads a rank's card. A rank without one has died before the last fence of the start:
// fabric.ErrPeerGone. Without launcher the error is fabric.ErrNoAddress.
func (l *launched) fetch(ctx context.Context, rank int) (*route.Card, error) {
	if c := l.shared(rank); c != nil {
		return c, nil
	}
	b, err := l.Get(ctx, rank, l.key)
	if errors.Is(err, join.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", fabric.ErrPeerGone, err)
	}
	if errors.Is(err, join.ErrLauncherGone) {
		return nil, fmt.Errorf("%w: %w", fabric.ErrNoAddress, err)
	}
	if err != nil {
		return nil, err
	}
	c, err := route.DecodeCard(b)
	if err != nil {
		return nil, fmt.Errorf("the card of rank %d: %w", rank, err)
	}
	return &c, nil
}

// card is fetch with a cache for repeated requests.
func (l *launched) card(peer proc.ID) (*route.Card, error) {
	l.cards.mu.Lock()
	if l.cards.last != nil && l.cards.owner == peer {
		defer l.cards.mu.Unlock()
		return l.cards.last, nil
	}
	if l.cards.all != nil {
		defer l.cards.mu.Unlock()
		return l.cards.all[peer].card, l.cards.all[peer].err
	}
	if l.cards.some != nil && l.cards.some[peer].card != nil {
		defer l.cards.mu.Unlock()
		return l.cards.some[peer].card, nil
	}
	if c := l.shared(int(peer)); c != nil {
		defer l.cards.mu.Unlock()
		l.cards.last, l.cards.owner = c, peer
		return c, nil
	}
	l.cards.asking++
	l.cards.single++
	many := l.cards.single > 1+l.Size()/cardBlock
	l.cards.mu.Unlock()
	var c *route.Card
	var err error
	if many {
		c, _ = l.fetchBlock(context.Background(), int(peer)) // fetch has the same error, and classes for it
	}
	if c == nil {
		c, err = l.fetch(context.Background(), int(peer))
	}
	l.cards.mu.Lock()
	defer l.cards.mu.Unlock()
	l.cards.asking--
	if err == nil {
		l.cards.last, l.cards.owner = c, peer
	}
	return c, err
}

// askPause is how long readAll waits before it checks again whether other requests have been
// answered.
const askPause = fabric.Time(100 * time.Microsecond)

// readAll reads the cards of all ranks. Afterwards no card is requested from the launcher.
func (l *launched) readAll(ctx context.Context) error {
	all := make([]foundCard, l.Size())
	for rank := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		// A cancelled request would be the launcher's last.
		all[rank].card, all[rank].err = l.fetch(context.WithoutCancel(ctx), rank)
	}
	l.cards.mu.Lock()
	l.cards.all = all
	for l.cards.asking > 0 {
		l.cards.mu.Unlock()
		l.host.Pause(askPause)
		l.cards.mu.Lock()
	}
	l.cards.mu.Unlock()
	return nil
}

// Verdicts implements bootstrap.
func (l *launched) Verdicts(peer proc.ID) ([]route.Verdict, error) {
	c, err := l.card(peer)
	if err != nil {
		return nil, err
	}
	return route.Choose(&l.self, c), nil
}

// providers name the one that has each fabric.
var providers = [...]string{route.Shm: "shm", route.Verbs: "tcp", route.Unix: "tcp", route.TCP: "tcp"}

// Address implements bootstrap. The reasons why a provider does not join a pair include those of
// fabrics that are not open here.
func (l *launched) Address(provider string, peer proc.ID) ([]byte, error) {
	c, err := l.card(peer)
	if err != nil {
		return nil, err
	}
	var why []string
	for _, v := range route.Choose(&l.self, c) {
		name := providers[v.Fabric]
		open := l.self.Address(name) != nil
		switch addr := c.Address(name); {
		case name != provider && open:
		case !v.OK:
			why = append(why, v.String())
		case !open || addr == nil:
			why = append(why, fmt.Sprintf("not %v: all ranks seemed to share memory, so no rank has opened it: "+
				"%s=unix,tcp does",
				v.Fabric, fabricVariable))
		default:
			shut := ""
			if v.Fabric == route.TCP || v.Fabric == route.Verbs {
				shut = l.unreachable(int(peer), c)
			}
			if shut == "" {
				return addr, nil
			}
			why = append(why, shut)
		}
	}
	return nil, noPath(strings.Join(why, "; "))
}

// noPath is the reason why a fabric does not join a pair.
type noPath string

// Error gives the reason.
func (n noPath) Error() string { return string(n) }

// Is makes it a fabric.ErrNoPath.
func (n noPath) Is(target error) bool { return target == fabric.ErrNoPath }
