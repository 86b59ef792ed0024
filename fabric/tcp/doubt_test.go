package tcp_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/netns"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// oneWay is a connection between two hosts, over which process 0 sends, and process 1 nothing.
type oneWay struct {
	addresses      [2]chan []byte
	sent, heard    atomic.Int64
	reads, removed atomic.Bool // process 1 may read; the address of process 0 is gone
	quiet          chan bool   // everything has arrived, and either kernel knows that
}

// A host that has lost the address of its connection sends over another one, long before the kernel gives the connection
// up, though all bytes on it had been acknowledged. A peer that does not read is no reason to connect again.
func TestLostOwnAddress(t *testing.T) {
	t.Parallel() // it waits
	_, n := separateHosts(t, netns.Config{Hosts: 2, IPv6: true})
	if n == nil {
		return
	}
	w := &oneWay{addresses: [2]chan []byte{make(chan []byte, 1), make(chan []byte, 1)}, quiet: make(chan bool, 2)}
	ended := make(chan error, 2)
	for id, body := range []func(*tcp.Provider, *tcp.Conn, *fabric.Sink) error{w.send, w.receive} {
		go func() { ended <- n.Do(id, func() error { return w.process(proc.ID(id), body) }) }()
	}
	for range w.addresses {
		select {
		case <-w.quiet:
		case err := <-ended:
			t.Fatal(err)
		}
	}
	require.NoError(t, n.RemoveAddr(0))
	w.removed.Store(true)
	for range w.addresses {
		require.NoError(t, <-ended)
	}
}

func (w *oneWay) process(id proc.ID, body func(*tcp.Provider, *tcp.Conn, *fabric.Sink) error) error {
	p, err := tcp.Open(tcp.Config{Self: id, MaxProcs: 2, Secret: []byte("sixteen bytes or more"), Inet: true,
		Patience: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	w.addresses[id] <- p.Address()
	c, err := p.Connect(fabric.ConnectSpec{Peer: 1 - id, Address: <-w.addresses[1-id]})
	if err == nil {
		var sink fabric.Sink
		sink.Deliver[fabric.ClassTest] = func(proc.ID, uint64, []byte) { w.heard.Add(1) }
		err = body(p, c.(*tcp.Conn), &sink)
	}
	return errors.Join(err, p.Close())
}

func (w *oneWay) send(p *tcp.Provider, c *tcp.Conn, s *fabric.Sink) error {
	send := func() bool { return c.TrySend(fabric.ClassTest, 0, make([]byte, 30_000)) }
	filled := time.Time{}
	err := progress(p, s, "fill the window", func() bool {
		for send() {
			w.sent.Add(1)
			filled = time.Now()
		}
		return !filled.IsZero() && time.Since(filled) > time.Second // some times Patience
	})
	w.reads.Store(true)
	err = errors.Join(err, progress(p, s, "send all", func() bool { return w.heard.Load() == w.sent.Load() && !p.Doubts() }))
	if n := c.Traffic().Broken; n != 0 {
		err = errors.Join(err, fmt.Errorf("%d connections to a peer that does not read were given up", n))
	}
	w.quiet <- true
	err = errors.Join(err, progress(p, s, "lose the address", w.removed.Load))
	start := time.Now()
	w.sent.Add(1)
	err = errors.Join(err, progress(p, s, "send again", send),
		progress(p, s, "send over the other address", func() bool { return w.heard.Load() == w.sent.Load() }))
	if took := time.Since(start); took > 8*time.Second || c.Traffic().Broken != 1 {
		err = errors.Join(err, fmt.Errorf("a frame took %v, over another connection: %v", took, c.Traffic()))
	}
	return err
}

func (w *oneWay) receive(p *tcp.Provider, c *tcp.Conn, s *fabric.Sink) error {
	err := progress(p, s, "connect", func() bool { return w.sent.Load() > 0 })
	for !w.reads.Load() {
		_, _ = unix.Poll(nil, 1)
	}
	err = errors.Join(err, progress(p, s, "receive all", func() bool { return w.heard.Load() == w.sent.Load() && !p.Doubts() }))
	before := w.heard.Load()
	w.quiet <- true
	return errors.Join(err, progress(p, s, "receive the last", func() bool { return w.heard.Load() > before && !c.Unsent() }))
}

// progress polls until cond holds.
func progress(p *tcp.Provider, s *fabric.Sink, what string, cond func() bool) error {
	for start := time.Now(); !cond(); {
		if time.Since(start) > time.Minute {
			return fmt.Errorf("cannot %s", what)
		}
		if p.Poll(s) == 0 {
			_, _ = unix.Poll(nil, 1)
		}
	}
	return nil
}
