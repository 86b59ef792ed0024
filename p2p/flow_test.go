package p2p

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// simulated runs body as each of n simulated processes.
func simulated(t *testing.T, n int, limits Limits, body func(e *Engine, c *Comm) error) {
	t.Helper()
	s, err := sim.New(sim.DefaultConfig(n))
	require.NoError(t, err)
	errs := make([]error, n)
	for rank := range n {
		require.NoError(t, s.Spawn(proc.ID(rank), func(p *sim.Proc) {
			eng := progress.New(progress.Config{
				Self: proc.ID(rank), Host: p.Host(), Others: []fabric.Provider{p.Provider()},
				Resolve: func(_ string, peer proc.ID) ([]byte, error) { return sim.Address(peer), nil },
			})
			e := New(eng, true, limits)
			c, err := e.NewComm("world", WorldGroup(n), rank, 1)
			if err == nil {
				err = body(e, c)
			}
			e.Flush()
			eng.Depart()
			errs[rank] = err
		}))
	}
	require.NoError(t, s.Run())
	for rank, err := range errs {
		require.NoError(t, err, "rank %d", rank)
	}
}

const floodSenders, floodMessages = 5, 12_000

func floodSize(r *rand.Rand) int {
	if r.IntN(50) == 0 {
		return 8 + r.IntN(20_000)
	}
	return 8 + r.IntN(600)
}

// A rank that many flood while it does not receive keeps no more than the bound from each, and then
// gets every message, in order.
func TestFloodIsBounded(t *testing.T) {
	simulated(t, floodSenders+1, Limits{Unexpected: 200_000}, func(e *Engine, c *Comm) error {
		if c.Rank() > 0 {
			return sendFlood(e, c)
		}
		f := flooded{e: e}
		for i := range 40_000 { // busy with something else
			if _, found, err := Iprobe[Aware](c, 1+i%floodSenders, 99); found || err != nil {
				return fmt.Errorf("%v, %w", found, err)
			}
			if err := f.check(); err != nil {
				return err
			}
		}
		if f.most < 50_000 || f.full < floodSenders*maxAnnounced {
			return fmt.Errorf("the flood did not reach the bound: %d units, %d messages", f.most, f.full)
		}
		return f.receive(c)
	})
}

func sendFlood(e *Engine, c *Comm) error {
	r := rand.New(rand.NewPCG(uint64(c.Rank()), 1))
	hs := make([]Handle, floodMessages)
	for i := range hs {
		buf := make([]byte, floodSize(r))
		binary.LittleEndian.PutUint64(buf, uint64(i))
		hs[i] = Isend[Aware](c, buf, 0, 1)
	}
	for _, h := range hs {
		if _, err := e.Wait(h); err != nil {
			return err
		}
	}
	return nil
}

// flooded observes the messages that the receiver of a flood keeps.
type flooded struct {
	e          *Engine
	most, full int // units of one sender, messages
}

func (f *flooded) check() error {
	f.e.Lock()
	defer f.e.Unlock()
	for p := 1; p <= floodSenders; p++ {
		l := f.e.findLink(proc.ID(p))
		if l == nil {
			continue
		}
		if f.most = max(f.most, l.kept); l.kept > 3*l.chunk {
			return fmt.Errorf("%d units of process %d are kept, chunks have %d", l.kept, p, l.chunk)
		}
	}
	if f.full = max(f.full, f.e.unexpected.n); f.full > floodSenders*(maxAnnounced+3*100_000/perMessage) {
		return fmt.Errorf("%d messages are kept", f.full)
	}
	return nil
}

// receive receives the flood and checks its order and lengths.
func (f *flooded) receive(c *Comm) error {
	buf := make([]byte, 30_000)
	var next [floodSenders + 1]uint64
	var sizes [floodSenders + 1]*rand.Rand
	for p := range sizes {
		sizes[p] = rand.New(rand.NewPCG(uint64(p), 1))
	}
	for range floodSenders * floodMessages {
		st, err := Recv[Aware](c, buf, AnySource, 1)
		if err != nil {
			return err
		}
		p := st.Source
		if i := binary.LittleEndian.Uint64(buf); i != next[p] || st.Count != floodSize(sizes[p]) {
			return fmt.Errorf("message %d of %d, %d bytes, want number %d", i, p, st.Count, next[p])
		}
		next[p]++
		if err := f.check(); err != nil {
			return err
		}
	}
	for p := 1; p <= floodSenders; p++ {
		if l := f.e.findLink(proc.ID(p)); l.kept != 0 {
			return fmt.Errorf("%d units of process %d are counted, none is kept", l.kept, p)
		}
	}
	return nil
}

func (s *scripted) count(class fabric.Class, imm uint64) (n int) {
	for _, f := range s.sent {
		if f.class == class && (imm == ^uint64(0) || f.imm == imm) {
			n++
		}
	}
	return n
}

// A sender whose peer accepts everything and answers nothing goes from eager messages to
// announcements to held sends; each answer releases as many as it has room for.
func TestSenderWithoutAnswers(t *testing.T) {
	s, e, c := newScripted(t)
	const size = 1000
	l, err := c.connect(1)
	require.NoError(t, err)
	eager := 2 * (l.chunk / (size + perMessage)) // the remainder of a chunk is added to the next
	var hs []Handle
	all := ^uint64(0)
	for range eager + maxAnnounced + 500 {
		hs = append(hs, Isend[Aware](c, make([]byte, size), 1, 1))
	}
	firsts := s.count(fabric.ClassFirst, all)
	require.InDelta(t, eager, firsts, 1)
	require.Equal(t, 1, s.count(fabric.ClassFlow, flowAsk))
	require.Equal(t, maxAnnounced, s.count(fabric.ClassRTS, all))
	require.Equal(t, -1, l.small)
	// Two are answered: the first two held ones are announced.
	for _, f := range s.sent[len(s.sent)-2:] {
		s.inbox = append(s.inbox, frame{fabric.ClassFin, binary.LittleEndian.Uint64(f.data), nil})
	}
	e.poll()
	require.Equal(t, maxAnnounced+2, s.count(fabric.ClassRTS, all))
	// Room for another chunk: the held ones are sent completely.
	grant := frame{fabric.ClassFlow, flowGrant, binary.LittleEndian.AppendUint64(nil, uint64(l.chunk))}
	s.inbox = []frame{grant}
	e.poll()
	require.InDelta(t, firsts+l.chunk/(size+perMessage), s.count(fabric.ClassFirst, all), 1)
	require.Equal(t, 2, s.count(fabric.ClassFlow, flowAsk))
	// The last held one takes the next chunk, one is spare, more were not asked for.
	s.inbox = []frame{grant, grant, grant, {fabric.ClassFlow, 9, nil}, {fabric.ClassFlow, flowGrant, nil}}
	e.poll()
	require.EqualValues(t, 3, e.refused)
	require.NotEmpty(t, hs)
}

// A receiver that keeps too much answers when enough has been received, and one that keeps little
// at once.
func TestReceiverAnswersWhenItHasRoom(t *testing.T) {
	s, e, c := newScripted(t)
	ask := frame{fabric.ClassFlow, flowAsk, nil}
	s.inbox = []frame{ask}
	e.poll()
	require.Equal(t, 1, s.count(fabric.ClassFlow, flowGrant))
	l := e.findLink(1)
	n := l.chunk/perMessage + 10
	for range n {
		s.inbox = append(s.inbox, frame{fabric.ClassEager, 1<<32 | 5, nil})
	}
	s.inbox = append(s.inbox, ask, ask, ask)
	e.poll()
	require.Equal(t, 1, s.count(fabric.ClassFlow, flowGrant))
	require.EqualValues(t, 1, e.refused, "a third question")
	for i := range n {
		require.Equal(t, i >= 10, s.count(fabric.ClassFlow, flowGrant) == 3, "after %d", i)
		_, err := Recv[Aware](c, nil, 1, 5)
		require.NoError(t, err)
	}
	require.Zero(t, l.kept)
}

// A peer that ignores its credit is cut off once, as corrupt, and its later messages are dropped.
// Frames for posted receives do not count.
func TestExcess(t *testing.T) {
	le := binary.LittleEndian
	rts := appendRTS(nil, rts{sender: 1, total: 1000})
	flood := map[string]struct {
		frame
		fair int // so many are not too many
	}{
		"eager": {frame{fabric.ClassEager, 1<<32 | 5, make([]byte, 100)},
			(1 + 3*4) * (512 << 10) / (100 + perMessage)},
		"empty":     {frame{fabric.ClassEager, 9<<32 | 5, nil}, (1 + 3*4) * (512 << 10) / perMessage},
		"fragments": {frame{fabric.ClassFirst, 1<<32 | 5, le.AppendUint64(nil, LongestEager)}, 0},
		"announced": {frame{fabric.ClassRTS, 1<<32 | 5, rts}, maxAnnounced},
	}
	for name, f := range flood {
		t.Run(name, func(t *testing.T) {
			s, e, c := newScripted(t)
			if f.class == fabric.ClassEager {
				for range 30_000 {
					h := Irecv[Aware](c, make([]byte, 100), 1, 7)
					s.inbox = append(s.inbox, frame{fabric.ClassEager, 1<<32 | 7, f.data})
					e.poll()
					_, err := e.Wait(h)
					require.NoError(t, err)
				}
			}
			for range f.fair {
				s.inbox = append(s.inbox, f.frame)
			}
			e.poll()
			require.Empty(t, s.cut)
			for range 1000 {
				s.inbox = append(s.inbox, f.frame)
			}
			e.poll()
			require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, s.cut)
			require.Equal(t, f.fair, e.unexpected.n)
		})
	}
}

// A peer that asks and does not read the answers is cut off.
func TestAnswersNotTaken(t *testing.T) {
	s, e, _ := newScripted(t)
	s.full = true
	ask := frame{fabric.ClassFlow, flowAsk, nil}
	for range maxAnswers {
		s.inbox = append(s.inbox, ask)
	}
	e.poll()
	require.Empty(t, s.cut)
	s.inbox = append(s.inbox, ask, ask)
	e.poll()
	require.Equal(t, []proc.Cause{{Kind: proc.Corrupt}}, s.cut)
	l := e.findLink(1)
	require.Equal(t, maxAnswers+1, l.answers)
	s.full = false
	e.poll()
	require.Zero(t, l.answers)
}

// A sender may have far higher limits than its receiver: the receiver's count.
func TestUnequalLimits(t *testing.T) {
	const messages, size = 3000, 30_000
	simulated(t, 2, Limits{Unexpected: 1 << 28, Eager: size}, func(e *Engine, c *Comm) error {
		if c.Rank() == 1 {
			var hs []Handle
			for range messages {
				hs = append(hs, Isend[Aware](c, make([]byte, size), 0, 1))
			}
			for _, h := range hs {
				if _, err := e.Wait(h); err != nil {
					return err
				}
			}
			return nil
		}
		e.limits = Limits{}
		for range 20_000 { // busy with something else
			if _, _, err := Iprobe[Aware](c, 1, 99); err != nil {
				return err
			}
		}
		l := e.findLink(1)
		if l.cutOff || l.kept < fairChunk || l.kept > l.mostKept() || l.chunk > fairChunk {
			return fmt.Errorf("%d units are kept of %d", l.kept, l.mostKept())
		}
		for range messages {
			if _, err := Recv[Aware](c, make([]byte, size), 1, 1); err != nil {
				return err
			}
		}
		return nil
	})
}

// A short send with room does not overtake a held announcement.
func TestShortSendWaitsInLine(t *testing.T) {
	s, e, c := newScripted(t)
	for range maxAnnounced + 1 {
		Issend[Aware](c, make([]byte, 8), 1, 1)
	}
	short := Isend[Aware](c, make([]byte, 8), 1, 1)
	require.Equal(t, maxAnnounced, len(s.sent))
	s.inbox = []frame{{fabric.ClassFin, binary.LittleEndian.Uint64(s.sent[0].data), nil}}
	e.poll()
	last := s.sent[maxAnnounced:]
	require.Len(t, last, 2)
	require.Equal(t, fabric.ClassRTS, last[0].class)
	require.Equal(t, fabric.ClassEager, last[1].class)
	_, done, err := e.Test(short)
	require.True(t, done)
	require.NoError(t, err)
	require.GreaterOrEqual(t, e.findLink(1).small, 0)
}
