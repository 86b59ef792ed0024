package tcp_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/netns"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Two hosts that are severed for longer than Heal report each other, once, with the connection as
// the cause, though neither has failed.
func TestSeveredForTooLong(t *testing.T) {
	t.Parallel()
	_, n := separateHosts(t, netns.Config{Hosts: 2})
	if n == nil {
		return
	}
	addresses := [2]chan []byte{make(chan []byte, 1), make(chan []byte, 1)}
	met := make(chan bool, 2)
	ended := make(chan error, 2)
	for id := range addresses {
		go func() {
			// The thread is on the host while the function runs.
			ended <- n.Do(id, func() error { return livesOf(proc.ID(id), addresses, met) })
		}()
	}
	for range addresses {
		select {
		case <-met:
		case err := <-ended:
			t.Fatal(err)
		}
	}
	require.NoError(t, n.Cut(0, 1))
	for host := range addresses {
		_, err := n.KillConnections(host)
		require.NoError(t, err)
	}
	for range addresses {
		require.NoError(t, <-ended)
	}
}

// livesOf is the body of either process: it connects to the other and waits for its end.
func livesOf(id proc.ID, addresses [2]chan []byte, met chan<- bool) (err error) {
	p, err := tcp.Open(tcp.Config{Self: id, MaxProcs: 2, Secret: []byte("sixteen bytes or more"), Inet: true,
		Heal: time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	addresses[id] <- p.Address()
	other := 1 - id
	conn, err := p.Connect(fabric.ConnectSpec{Peer: other, Address: <-addresses[other]})
	if err != nil {
		return err
	}
	heard := 0
	var causes []proc.Cause
	var sink fabric.Sink
	sink.Deliver[fabric.ClassTest] = func(proc.ID, uint64, []byte) {
		if heard++; heard == 1 {
			met <- true
		}
	}
	sink.Down = func(_ proc.ID, cause proc.Cause) { causes = append(causes, cause) }
	sent := false
	after := 0
	for start := time.Now(); after < 100; {
		sent = sent || conn.TrySend(fabric.ClassTest, 0, []byte("here I am"))
		if p.Poll(&sink) == 0 {
			_, _ = unix.Poll(nil, 1)
		}
		if len(causes) > 0 {
			after++ // whether anything follows
		}
		if time.Since(start) > time.Minute {
			return fmt.Errorf("%v hangs", id)
		}
	}
	if heard != 1 || len(causes) != 1 || causes[0].Kind != proc.Heartbeat {
		return fmt.Errorf("%v heard %d frames and these ends of its peer: %v", id, heard, causes)
	}
	return nil
}
