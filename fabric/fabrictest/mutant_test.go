package fabrictest

import (
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// mutantProvider is a provider with a fault: each function that is set replaces the method of its
// name.
type mutantProvider struct {
	*memProc
	frames  int // sent so far
	polls   int
	send    func(c mutantConn, class fabric.Class, imm uint64, payload []byte) bool
	poll    func(s *fabric.Sink) int
	ready   func() bool
	depart  func()
	shut    func() error
	connect func(spec fabric.ConnectSpec) (fabric.Conn, error)
	lookup  func(id proc.ID) fabric.Conn
	inform  func(id proc.ID, cause proc.Cause)
	get     func(c mutantConn, local []byte, r fabric.Region, offset uint64) error
	fetch   func(c mutantConn, local []byte, r fabric.Region, token uint64) error
	cut     func(c mutantConn)
}

// mutantConn sends through its provider's fault. It is a value, so that two of one
// connection are equal.
type mutantConn struct {
	*memConn
	b *mutantProvider
}

func (b *mutantProvider) wrap(c fabric.Conn) fabric.Conn {
	if c == nil {
		return nil
	}
	return mutantConn{c.(*memConn), b}
}

func (b *mutantProvider) Connect(spec fabric.ConnectSpec) (fabric.Conn, error) {
	if b.connect != nil {
		return b.connect(spec)
	}
	c, err := b.memProc.Connect(spec)
	if err != nil {
		return nil, err
	}
	return b.wrap(c), nil
}

func (b *mutantProvider) Lookup(id proc.ID) fabric.Conn {
	if b.lookup != nil {
		return b.lookup(id)
	}
	return b.wrap(b.memProc.Lookup(id))
}

func (b *mutantProvider) Inform(id proc.ID, cause proc.Cause) {
	if b.inform != nil {
		b.inform(id, cause)
		return
	}
	b.memProc.Inform(id, cause)
}

func (b *mutantProvider) Poll(s *fabric.Sink) int {
	b.polls++
	if b.poll != nil {
		return b.poll(s)
	}
	return b.memProc.Poll(s)
}

func (b *mutantProvider) Ready() bool {
	if b.ready != nil {
		return b.ready()
	}
	return b.memProc.Ready()
}

func (b *mutantProvider) Depart() {
	if b.depart != nil {
		b.depart()
		return
	}
	b.memProc.Depart()
}

func (b *mutantProvider) Close() error {
	if b.shut != nil {
		return b.shut()
	}
	return b.memProc.Close()
}

func (c mutantConn) TrySend(class fabric.Class, imm uint64, payload []byte) bool {
	if c.b.send == nil {
		return c.memConn.TrySend(class, imm, payload)
	}
	return c.b.send(c, class, imm, payload)
}

func (c mutantConn) Get(local []byte, r fabric.Region, offset uint64) error {
	if c.b.get == nil {
		return c.memConn.Get(local, r, offset)
	}
	return c.b.get(c, local, r, offset)
}

func (c mutantConn) Invalidate() {
	if c.b.cut == nil {
		c.memConn.Invalidate()
		return
	}
	c.b.cut(c)
}

// mutant is a fault and a case that must notice it.
type mutant struct {
	name  string
	in    string
	fault func(b *mutantProvider)
	host  func(h fabric.Host) fabric.Host // nil: sound
}

type sender = func(c mutantConn, class fabric.Class, imm uint64, payload []byte) bool

// sometimes fails one frame in so many that the correct provider would take.
func sometimes(b *mutantProvider, faulty sender) {
	const often = 37
	b.send = func(c mutantConn, class fabric.Class, imm uint64, payload []byte) bool {
		if b.frames++; b.frames%often == 0 {
			return faulty(c, class, imm, payload)
		}
		return c.memConn.TrySend(class, imm, payload)
	}
}

// frameMutants have faults in single frames.
var frameMutants = []mutant{
	{name: "drops", in: "sizes", fault: func(b *mutantProvider) {
		sometimes(b, func(mutantConn, fabric.Class, uint64, []byte) bool { return true })
	}},
	{name: "duplicates", in: "sizes", fault: func(b *mutantProvider) {
		sometimes(b, func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			if !c.memConn.TrySend(class, imm, p) {
				return false
			}
			c.memConn.TrySend(class, imm, p)
			return true
		})
	}},
	{name: "truncates", in: "sizes", fault: func(b *mutantProvider) {
		sometimes(b, func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			return c.memConn.TrySend(class, imm, p[:len(p)-len(p)/2])
		})
	}},
	{name: "spoils a byte", in: "sizes", fault: func(b *mutantProvider) {
		sometimes(b, func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			p = slices.Clone(p)
			if len(p) > 0 {
				p[len(p)-1] ^= 4
			}
			return c.memConn.TrySend(class, imm, p)
		})
	}},
	{name: "spoils the largest frame only", in: "sizes", fault: func(b *mutantProvider) {
		b.send = func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			if len(p) == memMaxFrame {
				p = slices.Clone(p)
				p[memMaxFrame/2] ^= 128
			}
			return c.memConn.TrySend(class, imm, p)
		}
	}},
	{name: "wrong class", in: "sizes", fault: func(b *mutantProvider) {
		sometimes(b, func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			return c.memConn.TrySend(class%5+1, imm, p)
		})
	}},
	{name: "immediate of 63 bits", in: "sizes", fault: func(b *mutantProvider) {
		b.send = func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			return c.memConn.TrySend(class, imm&^(1<<63), p)
		}
	}},
	{name: "reorders", in: "sizes", fault: reorder},
	{name: "reorders classes", in: "sizes", fault: reorderClasses},
	{name: "does not copy", in: "sizes", fault: delay(func(p []byte) []byte { return p })},
	{name: "keeps the last frame back", in: "depart-full", fault: delay(slices.Clone[[]byte])},
	{name: "large frames come late", in: "large-stream", fault: reorder},
	{name: "frames to another peer", in: "all-to-all", fault: func(b *mutantProvider) {
		sometimes(b, func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			for _, other := range b.out {
				return other.TrySend(class, imm, p) // of a map: any
			}
			return true
		})
	}},
}

// keptFrame is a frame that a mutant delays.
type keptFrame struct {
	c       mutantConn
	class   fabric.Class
	imm     uint64
	payload []byte
}

// reorder lets the next frame overtake a frame.
func reorder(b *mutantProvider) {
	var late *keptFrame
	b.send = func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
		if b.frames++; b.frames%37 == 0 && late == nil {
			late = &keptFrame{c, class, imm, slices.Clone(p)}
			return true
		}
		if !c.memConn.TrySend(class, imm, p) {
			return false
		}
		if late != nil && late.c.memConn.TrySend(late.class, late.imm, late.payload) {
			late = nil
		}
		return true
	}
}

// reorderClasses lets the control classes overtake.
func reorderClasses(b *mutantProvider) {
	inner := (*memProc).Poll
	b.poll = func(s *fabric.Sink) int {
		b.net.mu.Lock()
		for i := 1; i < len(b.inbox); i++ {
			if x, y := b.inbox[i-1], b.inbox[i]; x.kind == memFrame && y.kind == memFrame &&
				x.class < fabric.ClassDetect && y.class >= fabric.ClassDetect {
				b.inbox[i-1], b.inbox[i] = y, x
			}
		}
		b.net.mu.Unlock()
		return inner(b.memProc, s)
	}
}

// delay sends each frame only with the next one.
func delay(keep func([]byte) []byte) func(*mutantProvider) {
	return func(b *mutantProvider) {
		last := make(map[proc.ID]*keptFrame)
		b.send = func(c mutantConn, class fabric.Class, imm uint64, p []byte) bool {
			if h := last[c.Peer()]; h != nil && !c.memConn.TrySend(h.class, h.imm, h.payload) {
				return false
			}
			last[c.Peer()] = &keptFrame{c, class, imm, keep(p)}
			return true
		}
	}
}
