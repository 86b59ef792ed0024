package suite

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
)

// door is a port that admits only connections that send the password.
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

// answers are those of a rank whose port this is.
func (d *door) answers() peers.Answers {
	return peers.Answers{
		AskListening: func() string { return d.Addr().String() },
		AskForgery:   func() string { return hex.EncodeToString([]byte(forgery)) },
		AskRefused:   func() string { return fmt.Sprint(d.refused.Load()) },
		AskJoined:    func() string { return fmt.Sprint(d.joined.Load()) },
	}
}

// said answers questions like a rank.
type said peers.Answers

// Ask implements asker.
func (s said) Ask(_ context.Context, what string) (string, error) {
	if s[what] == nil {
		return "", errors.New("it is not known")
	}
	return s[what](), nil
}

// Connections come at their rate during the measurement, and both sides count them.
func TestFlood(t *testing.T) {
	d := newDoor(t)
	b, err := prepareFlood(t.Context(), said(d.answers()))
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
		require.ErrorContains(t, err, "connections a second")
	}
	require.NoError(t, err)
	require.Greater(t, samples, 1, "the first ones are of the flood's beginning")
	require.Equal(t, float64(samples), seconds)
	require.Greater(t, b.Flood.Total(), 200)

	require.NoError(t, b.finish(t.Context()))
	require.Positive(t, b.Refused)
	require.Positive(t, d.forgers.Load())
	require.Contains(t, b.String(), "admitted 0: met")
	require.False(t, (&Results{Flood: b}).Missed())
	stored, err := json.Marshal(b)
	require.NoError(t, err)
	require.Contains(t, string(stored), `"flood":{"elapsed_ns":`)

	c, err := net.Dial("tcp", d.Addr().String())
	require.NoError(t, err)
	_, err = c.Write([]byte(password))
	require.NoError(t, err)
	_, err = io.ReadAll(c) // until it has been judged
	require.NoError(t, err)
	require.NoError(t, b.finish(t.Context()))
	require.Contains(t, b.String(), "admitted 1: missed")
	require.True(t, (&Results{Flood: b}).Missed())

	_, err = b.under(t.Context(), func(context.Context) (float64, error) { return 0, errors.New("no") })
	require.EqualError(t, err, "no")
}

// A rank without a port, or a flood that does not reach it, is an error and not a result.
func TestFloodOfTheWrongPort(t *testing.T) {
	_, err := prepareFlood(t.Context(), said(nil))
	require.ErrorContains(t, err, "which TCP port the rank listens on: it is not known")
	d := newDoor(t)
	for what, answer := range map[string]string{AskListening: "here", AskForgery: "xyz", AskRefused: "-1",
		AskJoined: "many"} {
		answers := d.answers()
		answers[what] = func() string { return answer }
		_, err := prepareFlood(t.Context(), said(answers))
		require.Error(t, err, what)
	}
	b, err := prepareFlood(t.Context(), said(d.answers()))
	require.NoError(t, err)
	require.ErrorContains(t, b.finish(t.Context()), "they did not reach its port")

	d.Close()
	_, err = b.under(t.Context(), func(context.Context) (float64, error) {
		<-time.After(time.Millisecond)
		return 1, nil
	})
	require.ErrorContains(t, err, "only 0 connections a second reached the port")
	require.ErrorContains(t, err, "connection refused")
}

func TestFloodHasItsBound(t *testing.T) {
	p := (&Comparison{Options: Options{Sample: time.Millisecond}}).floodPlan(&flood{})
	require.Equal(t, []compare.Bound{{ID: "B4-5", Over: undisturbed, Ratio: compare.OfTimes, Limit: 1.1}}, p.Bounds)
	require.Equal(t, overTCP, p.Sources[0].Name)
	require.Equal(t, undisturbed, p.Sources[1].Name)
	require.Equal(t, []string{overTCP}, names([]string{groupFlood}))
}
