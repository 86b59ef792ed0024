package messages

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/debug"
	"github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// One rank admits each connection. A forged handshake at a rank's port is refused and counted, and
// the job goes on. Another goroutine reads the counters meanwhile and after Finalize.
func TestCounters(t *testing.T) {
	for range ranktest.Scaled(5, 1) {
		ranktest.Succeed(t, 3, "counters", "BANYAN_FABRIC=tcp")
	}
	res, out := ranktest.Job(t, launch.Abort, 2, "ring", "BANYAN_FABRIC=unix", "BANYAN_VERBOSE=1")
	require.Zero(t, res.Code)
	require.Equal(t, 2, strings.Count(out, ": connections: admitted "), out)
}

func counters(w *banyan.World) error {
	done := make(chan banyan.Counters)
	stop := make(chan struct{})
	go func() {
		var last banyan.Counters
		for ended := false; !ended; {
			select {
			case <-stop:
				ended = true
			default:
			}
			now := w.Counters() // the last time after Finalize
			if now.Admitted < last.Admitted || now.Refused.Total() < last.Refused.Total() {
				panic(fmt.Sprintf("%v after %v", now, last))
			}
			last = now
		}
		done <- last
	}()
	err := besieged(w)
	if err == nil {
		err = w.Finalize()
	}
	close(stop)
	if last, now := <-done, w.Counters(); err == nil && last != now {
		err = fmt.Errorf("%+v after Finalize, and then %+v", last, now)
	}
	return err
}

// besieged counts while a forger calls at the port of rank 0.
func besieged(w *banyan.World) error {
	c := w.Comm()
	for rank := range c.Size() {
		if _, err := w.Route(rank); err != nil {
			return err
		}
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	if c.Rank() == 0 {
		if err := forge(w); err != nil {
			return err
		}
	}
	mine := w.Counters()
	sum := []uint64{mine.Admitted, mine.Refused.WrongSecret}
	if err := banyan.Allreduce(c, sum, sum, banyan.Sum); err != nil {
		return err
	}
	if want := uint64(c.Size() * (c.Size() - 1) / 2); sum[0] != want || sum[1] != 1 || mine.Healed != 0 {
		return fmt.Errorf("%d admitted and %d with a wrong secret, want %d and 1; mine: %v", sum[0], sum[1], want, mine)
	}
	return nil
}

func forge(w *banyan.World) error {
	f, err := tcp.Forge(job.Joined().Published("tcp"))
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", f.To[0].String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(f.Words); err != nil {
		return err
	}
	for w.Counters().Refused.Total() == 0 {
		if _, _, err := w.Comm().Iprobe(banyan.AnySource, 9); err != nil { // progress
			return err
		}
	}
	answer, _ := io.ReadAll(conn) // or a reset
	if n := len(answer); n > 64 {
		return fmt.Errorf("the forger was told %d bytes", n)
	}
	return nil
}

func TestCountersInWords(t *testing.T) {
	c := banyan.Counters{Admitted: 3, Refused: banyan.Refused{NotPeer: 1, OtherVersion: 2, WrongSecret: 3, OtherTarget: 4,
		TimedOut: 5, TooMany: 6}}
	require.Equal(t, "admitted 3, healed 0, refused 21 "+
		"(1 not peers, 2 of other versions, 3 with a wrong secret, 4 for another process, 5 timed out, 6 too many at once)", c.String())
	require.Equal(t, "admitted 0, healed 0, refused 0", banyan.Counters{}.String())
	twice := c.Plus(c)
	require.Equal(t, uint64(6), twice.Admitted)
	require.Equal(t, uint64(42), twice.Refused.Total())
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, func(w *banyan.World) error {
		if w.Counters() != (banyan.Counters{}) || job.Joined().Published("tcp") != nil {
			return fmt.Errorf("the simulator has sockets: %v", w.Counters())
		}
		return nil
	}))
}

// Each rank counts the frames and the messages by rendezvous of each peer, over each fabric.
func TestPeerCounters(t *testing.T) {
	for _, fabric := range []string{"shm", "unix", "tcp"} {
		ranktest.Succeed(t, 2, "peer counters", "BANYAN_FABRIC="+fabric)
	}
}

func countedPeer(w *banyan.World) error {
	const small, long = 5, 100
	moved := uint64(long)
	if ranktest.Debugs() {
		moved += debug.Header // with the type
	}
	c, peer, sum := w.Comm(), 1-w.Comm().Rank(), []int{1}
	if err := c.Barrier(); err != nil {
		return err
	}
	if c.Rank() == 0 {
		for range small {
			if err := c.Send(make([]byte, 8), 1, 0); err != nil {
				return err
			}
		}
		if err := c.Ssend(make([]byte, long), 1, 0); err != nil {
			return err
		}
	} else {
		for range small + 1 {
			if _, err := c.Recv(make([]byte, long), 0, 0); err != nil {
				return err
			}
		}
	}
	now := w.PeerCounters(peer)
	frames, messages, bytes := now.FramesSent, now.RendezvousSent, now.RendezvousBytesSent
	if c.Rank() == 1 {
		frames, messages, bytes = now.FramesReceived, now.RendezvousReceived, now.RendezvousBytesReceived
	}
	switch {
	case frames < small+1 || messages != 1 || bytes != moved:
		return fmt.Errorf("rank %d: %+v", c.Rank(), now)
	case now.Fabric != os.Getenv("BANYAN_FABRIC") || now.Broken != 0 || now.Healed != 0:
		return fmt.Errorf("rank %d: %+v", c.Rank(), now)
	case w.PeerCounters(2) != banyan.PeerCounters{}:
		return fmt.Errorf("there is no rank 2: %+v", w.PeerCounters(2))
	}
	for range 4 { // from some on in shared memory, if there is any; a long one never
		if err := errors.Join(c.Barrier(), c.Bcast(make([]byte, 1<<20), 0), banyan.Allreduce(c, sum, sum, banyan.Sum)); err != nil {
			return err
		}
	}
	if n := c.Counters().Collectives; n != 13 {
		return fmt.Errorf("rank %d: %d collectives", c.Rank(), n)
	}
	if err := w.Finalize(); err != nil {
		return err
	}
	w.PeerCounters(peer) // is possible
	return nil
}
