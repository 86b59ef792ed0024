package intrusion_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/intrusion"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// maxProcs is the size of the job in whose id space the connections would like to be.
const maxProcs = 4

func open(t *testing.T, id proc.ID) *tcp.Provider {
	t.Helper()
	p, err := tcp.Open(tcp.Config{Self: id, MaxProcs: maxProcs, Secret: []byte("sixteen bytes or more"), Inet: true,
		Networks: []string{"127.0.0.0/8"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// listening returns the port that this process listens on.
func listening(t *testing.T) netip.AddrPort {
	t.Helper()
	mine := map[string]bool{}
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil { // one is of Glob itself
			mine[to] = true
		}
	}
	table, err := os.ReadFile("/proc/self/net/tcp")
	require.NoError(t, err)
	var found []netip.AddrPort
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != "0A" || !mine["socket:["+f[9]+"]"] {
			continue
		}
		var ip, port uint32
		_, err := fmt.Sscanf(f[1], "%08X:%04X", &ip, &port)
		require.NoError(t, err)
		found = append(found, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)))
	}
	require.Len(t, found, 1)
	return found[0]
}

// side is one of two processes that send a frame to and fro.
type side struct {
	*tcp.Provider
	sink fabric.Sink
	conn fabric.Conn
	got  int
}

// turn receives and answers the waiting messages.
func (s *side) turn(t *testing.T) {
	before := s.got
	s.Poll(&s.sink)
	if s.got > before {
		require.True(t, s.conn.TrySend(fabric.ClassTest, 0, []byte("to and fro")))
	}
}

// A fabric's port refuses all of them, each counted once; its messages continue, and none has
// become a peer.
func TestFloodOfAFabric(t *testing.T) {
	flooded := &side{Provider: open(t, 0)}
	to := listening(t)
	other := &side{Provider: open(t, 1)}
	for _, s := range []*side{flooded, other} {
		s.sink.Deliver[fabric.ClassTest] = func(proc.ID, uint64, []byte) { s.got++ }
		s.sink.Down = func(peer proc.ID, c proc.Cause) { t.Errorf("%d is down: %v", peer, c) }
	}
	conn, err := other.Connect(fabric.ConnectSpec{Peer: 0, Address: flooded.Address()})
	require.NoError(t, err)
	for other.conn = conn; flooded.conn == nil; flooded.conn = flooded.Lookup(1) {
		flooded.Poll(&flooded.sink)
		other.Poll(&other.sink)
	}
	for !conn.TrySend(fabric.ClassTest, 0, []byte("begin")) {
		other.Poll(&other.sink)
	}
	require.Zero(t, flooded.Stats().Refused())

	const total = 400
	done := make(chan intrusion.Report, 1)
	go func() {
		r, err := intrusion.Run(t.Context(), intrusion.Config{To: to, Rate: 4000, Total: total,
			Hello: func() []byte { return make([]byte, 512) }})
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	var r intrusion.Report
	for running := true; running; {
		flooded.turn(t)
		other.turn(t)
		select {
		case r = <-done:
			running = false
		default:
		}
	}
	require.Equal(t, total, r.Connected, "%s", &r)
	for flooded.Stats().Refused() < total { // those that left last
		flooded.turn(t)
		other.turn(t)
	}
	require.Equal(t, uint64(total), flooded.Stats().Refused(), "%+v", flooded.Stats())
	require.Zero(t, flooded.Stats().Reconnects)
	before := flooded.got
	for flooded.got < before+100 {
		flooded.turn(t)
		other.turn(t)
	}
	for id := proc.ID(2); id < maxProcs; id++ {
		require.Nil(t, flooded.Lookup(id), "a connection has become process %d", id)
	}
}
