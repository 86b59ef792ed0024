package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// door is a gate that refuses all, and lets in who says the password.
type door struct {
	net.Listener
	refused, joined, forgers atomic.Uint64
	open                     sync.WaitGroup
}

const (
	password = "friend"
	forgery  = "fiend"
)

func newDoor(t *testing.T) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &door{Listener: l}
	d.open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.open.Go(func() { d.judge(c) })
		}
	})
	t.Cleanup(func() { d.Close(); d.open.Wait() })
	return d
}

func (d *door) judge(c net.Conn) {
	defer c.Close()
	said := make([]byte, len(password))
	n, _ := io.ReadFull(c, said)
	switch string(said[:n]) {
	case password:
		d.joined.Add(1)
		return
	case forgery:
		d.forgers.Add(1)
	}
	d.refused.Add(1)
}

func (d *door) Listening() netip.AddrPort { return d.Addr().(*net.TCPAddr).AddrPort() }
func (d *door) Forgery() []byte           { return []byte(forgery) }
func (d *door) Refused() uint64           { return d.refused.Load() }
func (d *door) Joined() uint64            { return d.joined.Load() }

// said answers questions as a rank does.
type said peers.Answers

// Ask implements asker.
func (s said) Ask(_ context.Context, what string) (string, error) {
	if s[what] == nil {
		return "", errors.New("nobody can tell")
	}
	return s[what](), nil
}

// The strangers come while it is measured, at their rate, and are counted by both.
func TestSiege(t *testing.T) {
	d := newDoor(t)
	b, err := besiege(t.Context(), said(answersOf(d)))
	require.NoError(t, err)
	samples, seconds := 0, 0.0
	under := func() error {
		samples = 0
		seconds, err = b.under(t.Context(), func(context.Context) (float64, error) {
			samples++
			<-time.After(20 * time.Millisecond)
			return float64(samples), nil
		})
		return err
	}
	for range 10 { // a busy machine lets too few come at times, which gives no sample
		if under() == nil {
			break
		}
		require.ErrorContains(t, err, "strangers a second")
	}
	require.NoError(t, err)
	require.Greater(t, samples, 1, "the first ones are of the flood's beginning")
	require.Equal(t, float64(samples), seconds)
	require.Greater(t, b.Flood.Total(), 200)

	require.NoError(t, b.conclude(t.Context()))
	require.Positive(t, b.Refused)
	require.Positive(t, d.forgers.Load())
	require.Contains(t, b.String(), "let in 0: met")
	require.False(t, (&compareResults{Strangers: b}).missed())
	stored, err := json.Marshal(b)
	require.NoError(t, err)
	require.Contains(t, string(stored), `"flood":{"elapsed_ns":`)

	c, err := net.Dial("tcp", d.Addr().String())
	require.NoError(t, err)
	_, err = c.Write([]byte(password))
	require.NoError(t, err)
	_, err = io.ReadAll(c) // until it has been judged
	require.NoError(t, err)
	require.NoError(t, b.conclude(t.Context()))
	require.Contains(t, b.String(), "let in 1: missed")
	require.True(t, (&compareResults{Strangers: b}).missed())

	_, err = b.under(t.Context(), func(context.Context) (float64, error) { return 0, errors.New("no") })
	require.EqualError(t, err, "no")
}

// What cannot be besieged, or was not, is an error and not a result.
func TestSiegeOfTheWrongPort(t *testing.T) {
	_, err := besiege(t.Context(), said(answersOf(nil)))
	require.ErrorContains(t, err, "which TCP port the rank listens on: nobody can tell")
	d := newDoor(t)
	for what, answer := range map[string]string{askListening: "here", askForgery: "xyz", askRefused: "-1", askJoined: "many"} {
		answers := answersOf(d)
		answers[what] = func() string { return answer }
		_, err := besiege(t.Context(), said(answers))
		require.Error(t, err, what)
	}
	b, err := besiege(t.Context(), said(answersOf(d)))
	require.NoError(t, err)
	require.ErrorContains(t, b.conclude(t.Context()), "they were not at its port")

	d.Close()
	_, err = b.under(t.Context(), func(context.Context) (float64, error) {
		<-time.After(time.Millisecond)
		return 1, nil
	})
	require.ErrorContains(t, err, "only 0 strangers a second got to the port")
	require.ErrorContains(t, err, "connection refused")
}

func TestStrangersHaveTheirBound(t *testing.T) {
	p := (&contest{target: time.Millisecond}).strangersPlan(&besieged{})
	require.Equal(t, []compare.Bound{{ID: "B4-5", Over: undisturbed, Ratio: compare.OfTimes, Limit: 1.1}}, p.Bounds)
	require.Equal(t, overTCP, p.Sources[0].Name)
	require.Equal(t, undisturbed, p.Sources[1].Name)
	require.Equal(t, []string{overTCP}, names([]string{groupStrangers}))
}
