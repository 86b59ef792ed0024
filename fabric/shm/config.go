package shm

import (
	"fmt"
	"log/slog"
	"math/bits"

	"github.com/banyan-hpc/banyan/internal/nodemem"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Config configures the endpoint of one process.
type Config struct {
	// Self is the id of this process.
	Self proc.ID
	// MaxProcs bounds the process ids that may connect: 0 … MaxProcs-1. Each takes address space, a
	// page of memory once its process connects, and a long ring once it has much to send.
	MaxProcs int
	// Lines and BulkBytes may differ between processes: the receiver's values apply.
	//
	// Lines per long ring, a power of two, 64 … 65536; 0 means 512. It bounds the frames in flight
	// from one peer.
	Lines int
	// BulkBytes per long ring, a power of two, 16 KiB … 64 MiB; 0 means 256 KiB. It bounds the payload
	// in flight from one peer beyond the payload of lines.
	BulkBytes int
	// EagerNear and EagerFar are the lengths in bytes up to which Conn.Eager returns true: while
	// lines move fast between the two processes' cores, and at all times. 0 means 16 KiB and 6 KiB;
	// EagerFar above EagerNear means EagerNear. They apply to frames that this process sends.
	EagerNear, EagerFar int
	// EagerReply is the length up to which messages are better sent in frames to a peer that has
	// answered the previous one: see Conn.Reply. 0 means 32 KiB; values below EagerFar have no
	// effect.
	EagerReply int
	// NoGet disables process_vm_readv, as if the kernel refused it.
	NoGet bool
	// Dir, if set, holds the segment as a file, unlinked at once, instead of a memfd: for
	// containers that refuse memfd_create. It must be a tmpfs. Such a segment cannot be sealed:
	// both sides must set Dir.
	Dir string
	// Node, if set, is this process's place in memory that all processes of the job on this machine have,
	// or some. The endpoint takes the descriptor over. It is not used where Dir is set.
	Node nodemem.Place
	// Exits, if set, reports ended processes before their descriptors do, with the cause. It
	// outlives the endpoint.
	Exits Exits
	// Log receives the choice of the copy method, once per connection, and refused processes. Nil
	// discards them.
	Log *slog.Logger
	// Warn receives messages that matter also without a connection log: processes that were killed,
	// functions that fail. Nil: Log.
	Warn func(format string, args ...any)
}

// Exits is a record of ended processes of this machine.
type Exits interface {
	// FD is a descriptor that an edge-triggered epoll reports whenever another process has ended.
	FD() int
	// Entries changes whenever another process has ended. It costs a few loads. Any goroutine may
	// call it.
	Entries() uint64
	// Watched reports whether a process with that pid is registered and has not ended, so that its
	// end will be reported.
	Watched(pid int) bool
	// Ended reports whether and how the process that was registered last with a pid has ended.
	// Another process may have the pid by now. Any goroutine may call it, also with a lock held: it
	// takes one lock of its own at most, and does not wait for events.
	Ended(pid int) (proc.Cause, bool)
	// Execs is the number of exec calls of the process that is registered with a pid: a change
	// means that another program has replaced it. As Ended.
	Execs(pid int) uint32
}

const (
	defaultLines = 512
	defaultBulk  = 256 << 10
)

func (c *Config) check() error {
	if c.Lines == 0 {
		c.Lines = defaultLines
	}
	if c.BulkBytes == 0 {
		c.BulkBytes = defaultBulk
	}
	if c.EagerNear == 0 {
		c.EagerNear = defaultEagerNear
	}
	if c.EagerFar == 0 {
		c.EagerFar = defaultEagerFar
	}
	c.EagerFar = min(c.EagerFar, c.EagerNear)
	if c.EagerReply == 0 {
		c.EagerReply = defaultEagerReply
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Warn == nil {
		c.Warn = func(format string, args ...any) { c.Log.Warn(fmt.Sprintf(format, args...)) }
	}
	if c.MaxProcs < 1 || c.MaxProcs > proc.MaxIDs {
		return fmt.Errorf("shm: MaxProcs is %d, want 1 … %d", c.MaxProcs, proc.MaxIDs)
	}
	if int64(c.Self) >= int64(c.MaxProcs) {
		return fmt.Errorf("shm: Self is %d, want less than MaxProcs, %d", c.Self, c.MaxProcs)
	}
	if c.EagerFar < 0 || c.EagerReply < 0 {
		return fmt.Errorf("shm: eager limits of %d, %d and %d bytes", c.EagerNear, c.EagerFar, c.EagerReply)
	}
	return c.geometry().check()
}

// Defaults is the Config that zero values stand for.
func Defaults() Config {
	return Config{
		Lines: defaultLines, BulkBytes: defaultBulk,
		EagerNear: defaultEagerNear, EagerFar: defaultEagerFar, EagerReply: defaultEagerReply,
	}
}

func (c *Config) geometry() geometry {
	return geometry{procs: uint32(c.MaxProcs), lines: uint32(c.Lines), bulk: uint32(c.BulkBytes)}
}

// geometry determines the layout of a segment.
type geometry struct{ procs, lines, bulk uint32 }

const (
	pageBytes   = 4096
	headerBytes = pageBytes
	lineBytes   = 64
	// slotBytes is the part of its page that a process uses. In the memory of the node the rest is of another segment.
	slotBytes = pageBytes / 2
)

func (g geometry) check() error {
	if g.procs < 1 || g.procs > proc.MaxIDs {
		return fmt.Errorf("shm: %d processes, want 1 … %d", g.procs, proc.MaxIDs)
	}
	if g.lines < 64 || g.lines > 1<<16 || bits.OnesCount32(g.lines) != 1 {
		return fmt.Errorf("shm: %d lines per slot, want a power of two from 64 to 65536", g.lines)
	}
	if g.bulk < 16<<10 || g.bulk > 64<<20 || bits.OnesCount32(g.bulk) != 1 {
		return fmt.Errorf("shm: %d bulk bytes per slot, want a power of two from 16 KiB to 64 MiB", g.bulk)
	}
	return nil
}

// knockBytes is the size of the newcomers' bitmap behind the header, whole pages; 0: the header
// holds it.
func (g geometry) knockBytes() int64 {
	n := int64(g.procs+63) / 64 * 8
	if n <= wordsAt-knocksAt {
		return 0
	}
	return roundUp(n, pageBytes)
}

// knockOffset is where the bitmap is.
func (g geometry) knockOffset() int64 {
	if g.knockBytes() == 0 {
		return knocksAt
	}
	return headerBytes
}

// pageOffset is where the page of a process is: its address, the cursors and its short ring.
func (g geometry) pageOffset(id proc.ID) int64 {
	return headerBytes + g.knockBytes() + int64(id)*pageBytes
}

// ringBytes is the size of a long ring.
func (g geometry) ringBytes() int64 { return int64(g.lines)*lineBytes + int64(g.bulk) }

// ringOffset is where the long ring of a process is, if it has one.
func (g geometry) ringOffset(id proc.ID) int64 {
	return g.pageOffset(proc.ID(g.procs)) + int64(id)*g.ringBytes()
}

// boardsOffset is the start of the boards' memory, the last part of a segment.
func (g geometry) boardsOffset() int64 { return g.ringOffset(proc.ID(g.procs)) }

func (g geometry) segmentBytes() int64 { return g.boardsOffset() + boardArea }

// maxFrame is the longest frame of a ring with so many bulk bytes. It keeps a frame, its free line and the gaps at a
// page's boundary and at the ring's end below the credit that the consumer may hold back (a quarter): see ring.place
// and consumer.returnCredit.
func maxFrame(bulk uint64) int { return int(bulk/4) - lineBytes }

// maxFrame is that of a wide ring.
func (g geometry) maxFrame() int { return maxFrame(uint64(g.bulk)) }

func roundUp[T int64 | uint64](n, to T) T { return (n + to - 1) / to * to }
