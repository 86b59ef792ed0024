package tcp

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// pair opens two endpoints in this process and connects them.
func pair(t testing.TB, cfg Config) (p [2]*Provider, c [2]*Conn) {
	t.Helper()
	for i := range p {
		mine := cfg
		mine.Self, mine.MaxProcs, mine.Secret = proc.ID(i), 2, []byte("the secret of these two")
		var err error
		p[i], err = Open(mine)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p[i].Close()) })
	}
	conn, err := p[0].Connect(fabric.ConnectSpec{Peer: 1, Address: p[1].Address()})
	require.NoError(t, err)
	c[0] = conn.(*Conn)
	var none fabric.Sink
	for c[0].state != up {
		p[0].Poll(&none)
		p[1].Poll(&none)
	}
	c[1] = p[1].Lookup(0).(*Conn)
	return p, c
}

// collector is a sink that keeps its input, each payload in a buffer of its own where one is
// requested.
type collector struct {
	fabric.Sink
	got      [][]byte
	placing  []byte
	returned int
	ended    []proc.Cause
}

func newCollector() *collector {
	k := new(collector)
	k.Deliver[fabric.ClassTest] = func(_ proc.ID, _ uint64, payload []byte) { k.got = append(k.got, bytes.Clone(payload)) }
	k.Place = func(_ proc.ID, _ fabric.Class, _ uint64, n int) []byte {
		k.placing = make([]byte, n)
		return k.placing
	}
	k.Placed = func(proc.ID, fabric.Class, uint64, int) { k.got = append(k.got, k.placing) }
	k.Returned = func(_ proc.ID, n int) { k.returned += n }
	k.Down = func(_ proc.ID, cause proc.Cause) { k.ended = append(k.ended, cause) }
	k.Departed = func(proc.ID) { k.ended = append(k.ended, proc.Cause{Kind: proc.Departed}) }
	return k
}

// noise is n bytes that depend on the seed.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// until polls both until cond holds; it gives up after a long time without events.
func until(t testing.TB, p [2]*Provider, s [2]*collector, cond func() bool) {
	t.Helper()
	for idle := 0; !cond(); idle++ {
		if p[0].Poll(&s[0].Sink)+p[1].Poll(&s[1].Sink) > 0 {
			idle = 0
		}
		require.Less(t, idle, 1_000_000, "nothing happens any more: %v, %v", p[0].Ready(), p[1].Ready())
	}
}

func TestLoansArriveAndReturn(t *testing.T) {
	for _, placing := range []bool{true, false} {
		p, c := pair(t, Config{Inet: true})
		s := [2]*collector{newCollector(), newCollector()}
		if !placing {
			s[1].Place = nil
		}
		var sent [][]byte
		loans := 0
		for i, n := range []int{1, 100, minPlaced - 1, minPlaced, window, directSend, maxFrame, 131072, maxLent,
			maxLent - 1, 300_000} {
			b := noise(uint64(i), n)
			short := b[:min(n, c[0].Caps().MaxFrame)]
			until(t, p, s, func() bool { return c[0].TryLend(fabric.ClassTest, uint64(i), b) })
			loans++
			until(t, p, s, func() bool { return c[0].TrySend(fabric.ClassTest, uint64(i), short) })
			sent = append(sent, b, short)
		}
		until(t, p, s, func() bool { return s[0].returned == loans && len(s[1].got) == len(sent) })
		for i := range sent {
			require.True(t, bytes.Equal(sent[i], s[1].got[i]), "frame %d of %d bytes", i, len(sent[i]))
		}
	}
}
