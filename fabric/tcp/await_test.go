package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
)

// TestAwait sends frames that Await takes and frames that it leaves to Poll, in every order of two,
// and checks that all arrive once and in order.
func TestAwait(t *testing.T) {
	const imm, other = 7, 8
	kinds := []struct {
		name  string
		imm   uint64
		size  int
		taken bool // by Await, if it comes alone
	}{
		{"awaited", imm, 10, true},
		{"empty", imm, 0, true},
		{"another", other, 10, false},
		{"too long", imm, 100, false},
		{"more than is read at once", imm, 3 * window, false},
	}
	for _, first := range kinds {
		for _, second := range kinds {
			p, c := pair(t, Config{Inet: true})
			s := [2]*collector{newCollector(), newCollector()}
			send := func(i uint64, n int) {
				until(t, p, s, func() bool { return c[0].TrySend(fabric.ClassTest, i, noise(i, n)) })
			}
			send(imm, 1) // makes it the connection that delivered last
			until(t, p, s, func() bool { return len(s[1].got) == 1 })
			buf := make([]byte, 16)
			send(first.imm, first.size)
			got := fabric.NotYet
			for got == fabric.NotYet {
				got = c[1].Await(fabric.ClassTest, imm, buf, 100)
			}
			want := 2
			if first.taken {
				require.Equal(t, first.size, got, first.name)
				require.Equal(t, noise(imm, first.size), buf[:got])
				want = 1
			} else {
				require.Less(t, got, fabric.NotYet, first.name)
				require.True(t, p[1].Ready(), "what Await has read and not delivered keeps the process awake")
			}
			send(second.imm, second.size)
			until(t, p, s, func() bool { return len(s[1].got) == want+1 })
			require.Equal(t, noise(second.imm, second.size), s[1].got[want], "%s after %s", second.name, first.name)
			require.Zero(t, len(s[1].ended)+len(s[0].ended))
		}
	}
}

func TestAwaitTakesNothingThatComesWithMore(t *testing.T) {
	p, c := pair(t, Config{Inet: true})
	s := [2]*collector{newCollector(), newCollector()}
	send := func(n int) {
		until(t, p, s, func() bool { return c[0].TrySend(fabric.ClassTest, 1, noise(1, n)) })
	}
	send(1)
	until(t, p, s, func() bool { return len(s[1].got) == 1 })
	send(10)
	send(11)
	for {
		if got := c[1].Await(fabric.ClassTest, 1, make([]byte, 16), 1); got >= 0 {
			require.Equal(t, 10, got) // they came one by one
			break
		} else if got < fabric.NotYet {
			break
		}
	}
	until(t, p, s, func() bool { return c[1].received == 3 })
	require.Equal(t, noise(1, 11), s[1].got[len(s[1].got)-1])
}

// What Await reads may concern a goroutine that sleeps at the bell: no event of the socket will wake that one any more.
// Nothing is rung for the frame of the caller alone.
func TestAwaitWakesASleeper(t *testing.T) {
	alone := func(*tap) []byte { return wire(header{kind: kind(fabric.ClassTest)}, nil) }
	acknowledging := func(tp *tap) []byte {
		require.True(t, tp.conn.TrySend(fabric.ClassTest, 0, nil))
		return wire(header{kind: kind(fabric.ClassTest), taken: 1}, nil)
	}
	for name, frame := range map[string]func(tp *tap) []byte{
		"alone":         alone,
		"acknowledging": acknowledging,
		"another": func(tp *tap) []byte {
			return append(alone(tp), wire(header{kind: kind(fabric.ClassTest), number: 1}, nil)...)
		},
		"returning": func(tp *tap) []byte {
			require.True(t, tp.conn.TryLend(fabric.ClassTest, 0, []byte("a loan")))
			return wire(header{kind: kind(fabric.ClassTest), taken: 1}, nil)
		},
		"crediting": func(tp *tap) []byte {
			tp.conn.starving = true
			return acknowledging(tp)
		},
		"unwatching": func(tp *tap) []byte {
			tp.recentHits = unwatchAfter - 1
			return alone(tp)
		},
	} {
		t.Run(name, func(t *testing.T) {
			rings := 0
			tp := newTap(t, Config{Ring: func() { rings++ }}) // no watcher rings, as nothing arms it
			tp.recent = tp.conn
			b := frame(tp)
			sent, errno := sendBytes(tp.fd, b)
			require.Zero(t, errno)
			require.Len(t, b, sent)
			got := tp.conn.Await(fabric.ClassTest, 0, nil, 1)
			require.Equal(t, name == "another", got < fabric.NotYet)
			if name == "alone" || name == "acknowledging" {
				require.Zero(t, rings)
			} else {
				require.Equal(t, 1, rings)
			}
		})
	}
}
