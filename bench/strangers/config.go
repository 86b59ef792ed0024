package strangers

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Kind is what a stranger does.
type Kind int

// The kinds. They take turns in this order.
const (
	// Leaving connects and closes at once, in an orderly way.
	Leaving Kind = iota
	// Silent connects and says nothing.
	Silent
	// Noisy sends random bytes.
	Noisy
	// Forging sends Config.Hello: all of the protocol but the secret.
	Forging
	// Slow sends Config.Hello one byte at a time, and never the last one.
	Slow
	// Babbling sends random bytes for ever. It comes only where Config.Kinds names it.
	Babbling
)

// usual are the kinds where Config.Kinds is nil.
var usual = []Kind{Leaving, Silent, Noisy, Forging, Slow}

// String is the kind's name in reports.
func (k Kind) String() string {
	return [...]string{"leaving", "silent", "noisy", "forging", "slow", "babbling"}[k]
}

// Config is a flood.
type Config struct {
	// To is the port, at an address of this machine.
	To netip.AddrPort
	// Path is a Unix socket of packets in place of To.
	Path string
	// Kinds take turns. Nil: Leaving, Silent, Noisy, Forging, Slow.
	Kinds []Kind
	// Crowd keeps so many at the port at once until ctx ends: they all come
	// at the beginning and stay, and for each that the port's owner drops another
	// one comes, Rate of these per second. 0: Rate and Stay say how many there are.
	Crowd int
	// Rate is strangers per second; together with Stay it bounds how many are there
	// at once, see [MaxAtOnce].
	Rate float64
	// Total ends the flood after so many; 0: ctx ends it.
	Total int
	// Hello returns what the next forger says; it is called once for each. Nil: there
	// are no forgers, and the slow ones say random bytes.
	Hello func() []byte `json:"-"`
	// Stay is how long each remains that does not leave at once. 0: 250 ms.
	Stay time.Duration
	// Drip is the time between the bytes of a slow one. 0: 50 ms.
	Drip time.Duration
	// Seed makes the random bytes.
	Seed uint64
}

const (
	// MaxAtOnce bounds Rate × Stay, and so the descriptors.
	MaxAtOnce = 4096
	// MaxRate bounds Rate, per second.
	MaxRate = 1e5

	defaultStay = 250 * time.Millisecond
	defaultDrip = 50 * time.Millisecond
	// noiseMax bounds the bytes of a noisy one; nonsense is as long as that for a
	// slow one without Hello.
	noiseMax = 1024
)

// check fills in defaults and finds what is wrong.
func (c *Config) check() error {
	if c.Stay == 0 {
		c.Stay = defaultStay
	}
	if c.Drip == 0 {
		c.Drip = defaultDrip
	}
	if c.Kinds == nil {
		c.Kinds = usual
	}
	switch {
	case c.Path != "":
	case !c.To.IsValid() || c.To.Port() == 0:
		return fmt.Errorf("strangers: %v is no port to connect to", c.To)
	}
	switch {
	case !(c.Rate > 0) || c.Rate > MaxRate:
		return fmt.Errorf("strangers: %v a second: above 0, at most %v", c.Rate, float64(MaxRate))
	case c.Stay < 0 || c.Drip <= 0 || c.Total < 0:
		return fmt.Errorf("strangers: stay %v, drip %v, total %d: they cannot be negative", c.Stay, c.Drip, c.Total)
	case c.Crowd < 0 || c.Crowd > MaxAtOnce:
		return fmt.Errorf("strangers: a crowd of %d: from 0 to %d", c.Crowd, MaxAtOnce)
	case c.Crowd > 0 && slices.Contains(c.Kinds, Leaving):
		return fmt.Errorf("strangers: in a crowd all stay: no leaving ones")
	case c.Crowd == 0 && c.Rate*c.Stay.Seconds() > MaxAtOnce:
		return fmt.Errorf("strangers: %v a second that stay %v are more than %d at once: fewer, or shorter", c.Rate, c.Stay, MaxAtOnce)
	}
	return nil
}
