package intrusion

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Kind is the behaviour of a connection.
type Kind int

// The kinds. They take turns in this order.
const (
	// Leaving connects and closes at once, in an orderly way.
	Leaving Kind = iota
	// Silent connects and sends nothing.
	Silent
	// Noisy sends random bytes.
	Noisy
	// Forging sends Config.Hello: all of the protocol but the secret.
	Forging
	// Slow sends Config.Hello one byte at a time, and never the last one.
	Slow
	// Babbling sends random bytes for ever. It is used only where Config.Kinds names it.
	Babbling
)

// defaultKinds are those of a Config without Kinds.
var defaultKinds = []Kind{Leaving, Silent, Noisy, Forging, Slow}

// String is the kind's name in reports.
func (k Kind) String() string {
	return [...]string{"leaving", "silent", "noisy", "forging", "slow", "babbling"}[k]
}

// Config describes a flood.
type Config struct {
	// To is the port, at an address of this machine.
	To netip.AddrPort
	// Path is a Unix socket of packets in place of To.
	Path string
	// Kinds take turns. Nil: Leaving, Silent, Noisy, Forging, Slow.
	Kinds []Kind
	// Held keeps this many connections open until ctx ends: all are opened at the start, and each
	// that the server closes is replaced, Rate of these per second. 0: Rate and Stay decide.
	Held int
	// Rate is connections per second; with Stay it bounds those open at once, see [MaxAtOnce].
	Rate float64
	// Total ends the flood after this many connections; 0: ctx ends it.
	Total int
	// Hello returns the data that the next forging connection sends. Nil: there are no forging
	// ones, and the slow ones send random bytes.
	Hello func() []byte `json:"-"`
	// Stay is how long a connection stays open if it does not leave at once. 0: 250 ms.
	Stay time.Duration
	// ByteEvery is the time between the bytes of a slow one. 0: 50 ms.
	ByteEvery time.Duration
	// Seed makes the random bytes.
	Seed uint64
}

const (
	// MaxAtOnce bounds Rate × Stay, and so the descriptors.
	MaxAtOnce = 4096
	// MaxRate bounds Rate, per second.
	MaxRate = 1e5

	defaultStay      = 250 * time.Millisecond
	defaultByteEvery = 50 * time.Millisecond
	// noiseMax bounds the random bytes of a connection.
	noiseMax = 1024
)

// check fills in defaults and reports wrong values.
func (c *Config) check() error {
	c.Stay = cmp.Or(c.Stay, defaultStay)
	c.ByteEvery = cmp.Or(c.ByteEvery, defaultByteEvery)
	if c.Kinds == nil {
		c.Kinds = defaultKinds
	}
	switch {
	case c.Path == "" && (!c.To.IsValid() || c.To.Port() == 0):
		return fmt.Errorf("intrusion: %v is no port to connect to", c.To)
	case !(c.Rate > 0) || c.Rate > MaxRate:
		return fmt.Errorf("intrusion: %v a second: above 0, at most %v", c.Rate, float64(MaxRate))
	case c.Stay < 0 || c.ByteEvery <= 0 || c.Total < 0:
		return fmt.Errorf("intrusion: stay %v, a byte every %v, total %d: they cannot be negative", c.Stay,
			c.ByteEvery, c.Total)
	case c.Held < 0 || c.Held > MaxAtOnce:
		return fmt.Errorf("intrusion: %d held connections: from 0 to %d", c.Held, MaxAtOnce)
	case c.Held > 0 && slices.Contains(c.Kinds, Leaving):
		return fmt.Errorf("intrusion: held connections cannot be leaving ones")
	case c.Held == 0 && c.Rate*c.Stay.Seconds() > MaxAtOnce:
		return fmt.Errorf("intrusion: %v a second that stay %v are more than %d at once: fewer, or shorter", c.Rate,
			c.Stay, MaxAtOnce)
	}
	return nil
}
