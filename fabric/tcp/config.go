package tcp

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// Config configures the endpoint of one process.
type Config struct {
	// Self is the id of this process, MaxProcs bounds those of its peers.
	Self     proc.ID
	MaxProcs int
	// Secret is the job's: 16 to 64 bytes that only its processes have.
	Secret []byte
	// Inet and Unix permit TCP, and Unix-domain sockets between processes that share a network
	// namespace. At least one must be set.
	Inet, Unix bool
	// Networks restrict the addresses on which this process listens: names of interfaces and CIDRs,
	// with a "!" before those to exclude. Empty means all interfaces that are up.
	Networks []string
	// Heal is how long a broken connection is reconnected, and a new one tried, before the peer is
	// reported down; 0 means 30 s. If two processes differ, the shorter time decides.
	Heal time.Duration
	// Patience is how long the machine of a peer that has several addresses may not answer before another one is tried; 0 means 500 ms.
	Patience time.Duration
	// Linger bounds how long Close, after Depart, waits for peers that do not read; 0 means 10 s.
	// Data that have not reached their machines by then may be lost.
	Linger time.Duration
	// Outbox is the size of the ring that keeps frames until the peer has taken them, bytes, a
	// power of two from 128 KiB to 1 GiB; 0 means 4 MiB. It bounds the data in flight to a peer,
	// and takes memory while it is used. A frame is at most a quarter of it.
	Outbox int
	// Eager is the length in bytes up to which messages are better sent at once than announced,
	// Reply that for answers; 0 means 64 KiB and 768 KiB.
	Eager, Reply int
	// Beside gets the frames of SendBeside, inside Poll; the payload is borrowed. If it is set, this
	// process's address announces another path beside its sockets: see beside.go.
	Beside func(from proc.ID, payload []byte)
	// Shared: this process yields the core between two polls, because ranks share cores. That takes
	// so long that each poll checks all connections.
	Shared bool
	// Ring rings the bell of this process; any goroutine may call it.
	Ring func()
	// Log receives how each connection was made, and which were refused. Nil discards it.
	Log *slog.Logger
	// Warn receives messages that matter also without a connection log. Nil: Log. Any goroutine
	// may call it.
	Warn func(format string, args ...any)
}

const (
	defaultHeal     = 30 * time.Second
	defaultPatience = 500 * time.Millisecond
	defaultLinger   = 10 * time.Second
	defaultOutbox   = 4 << 20
	minOutbox       = 128 << 10
	maxOutbox       = 1 << 30
	defaultEager    = 64 << 10
	defaultReply    = 768 << 10
	minSecret       = 16
	maxSecret       = 64
)

// Defaults is the Config that zero values stand for.
func Defaults() Config {
	return Config{Heal: defaultHeal, Outbox: defaultOutbox, Eager: defaultEager, Reply: defaultReply}
}

// longest is the longest frame.
func (c *Config) longest() int { return min(maxFrame, c.Outbox/4) }

func (c *Config) check() error {
	c.Heal = cmp.Or(c.Heal, defaultHeal)
	c.Patience = cmp.Or(c.Patience, defaultPatience)
	c.Linger = cmp.Or(c.Linger, defaultLinger)
	c.Outbox = cmp.Or(c.Outbox, defaultOutbox)
	c.Eager = cmp.Or(c.Eager, defaultEager)
	c.Reply = cmp.Or(c.Reply, defaultReply)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Warn == nil {
		c.Warn = func(format string, args ...any) { c.Log.Warn(fmt.Sprintf(format, args...)) }
	}
	if c.Ring == nil {
		c.Ring = func() {}
	}
	switch {
	case c.MaxProcs < 1 || c.MaxProcs > proc.MaxIDs:
		return fmt.Errorf("tcp: MaxProcs is %d, want 1 … %d", c.MaxProcs, proc.MaxIDs)
	case int64(c.Self) >= int64(c.MaxProcs):
		return fmt.Errorf("tcp: Self is %d, want less than MaxProcs, %d", c.Self, c.MaxProcs)
	case len(c.Secret) < minSecret || len(c.Secret) > maxSecret:
		return fmt.Errorf("tcp: a secret of %d bytes, want %d to %d", len(c.Secret), minSecret, maxSecret)
	case !c.Inet && !c.Unix:
		return fmt.Errorf("tcp: neither TCP nor Unix-domain sockets may be used")
	case c.Heal < 0 || c.Linger < 0 || c.Eager < 0 || c.Reply < 0:
		return fmt.Errorf("tcp: Heal is %v, Linger %v, Eager %d and Reply %d: none may be negative",
			c.Heal, c.Linger, c.Eager, c.Reply)
	case c.Outbox < minOutbox || c.Outbox > maxOutbox || c.Outbox&(c.Outbox-1) != 0:
		return fmt.Errorf("tcp: an outbox of %d bytes, want a power of two from %d to %d", c.Outbox, minOutbox, maxOutbox)
	}
	return nil
}
