//go:build cgo

package verbs

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// count is a number of objects of the kernel, such as "qp 3".
var count = regexp.MustCompile(`([a-z_]+) (\d+)`)

// held counts the objects of the adapters that all processes hold, by kind, and the descriptors of this one.
func held(t *testing.T) map[string]int {
	out, err := exec.CommandContext(t.Context(), "rdma", "resource", "show").CombinedOutput()
	require.NoError(t, err, string(out))
	m := make(map[string]int)
	for _, c := range count.FindAllStringSubmatch(string(out), -1) {
		n, err := strconv.Atoi(c[2])
		require.NoError(t, err)
		m[c[1]] += n
	}
	require.Contains(t, m, "qp", string(out))
	require.Contains(t, m, "mr", string(out))
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	m["descriptors"] = len(fds)
	return m
}

const (
	hubs  = 0 // the id of the one that all others connect to
	group = 9 // processes, it included
)

// openGroup opens the endpoints of a group, which have two lanes each: to the hub.
func openGroup(t *testing.T) (all []*peer) {
	port, err := Choose("", nil)
	require.NoError(t, err)
	for id := range proc.ID(group) {
		q, err := Open(Config{Ports: []Port{port}, Sockets: tcp.Config{
			Self: id, MaxProcs: group, Secret: []byte("sixteen bytes or more"), Inet: true,
		}})
		require.NoError(t, err)
		q.pause = time.Millisecond
		p := &peer{Provider: q, t: t}
		p.sink.Deliver[fabric.ClassTest] = func(_ proc.ID, imm uint64, _ []byte) { p.got = append(p.got, imm) }
		p.sink.Down = func(_ proc.ID, cause proc.Cause) { p.downs = append(p.downs, cause) }
		p.sink.Departed = func(proc.ID) { p.leaves++ }
		all = append(all, p)
	}
	return all
}

// A thousand connections, of which a hundred and more end by a death and as many have a lane that fails, leave no queue
// pair, region, other object of the kernel or descriptor behind. Those of a dead peer are freed at once.
func TestNothingIsLeaked(t *testing.T) {
	if noAdapter(t) {
		return
	}
	rounds := 125
	if testing.Short() {
		rounds = 6
	}
	useGroup(t, held(t)) // the first one makes some objects for all
	before := held(t)
	for range rounds {
		useGroup(t, before)
	}
	require.Equal(t, before, held(t))
}

// useGroup has a group exchange messages and memory; then one process dies, a lane fails, and all leave.
func useGroup(t *testing.T, before map[string]int) {
	all := openGroup(t)
	hub, others := all[hubs], all[hubs+1:]
	pollAll := func() {
		for _, p := range all {
			p.Poll(&p.sink)
		}
	}
	conns := make([]*Conn, len(others))
	for i, p := range others {
		made, err := p.Connect(fabric.ConnectSpec{Peer: hubs, Address: hub.Address()})
		require.NoError(t, err)
		conns[i] = made.(*Conn)
	}
	for i := range conns {
		for !conns[i].sending || !conns[i].receiving {
			pollAll()
		}
	}
	mem := make([]byte, 64<<10)
	region, err := hub.Share(mem)
	require.NoError(t, err)
	for i, c := range conns {
		require.True(t, c.TrySend(fabric.ClassTest, uint64(i), mem[:100]))
		c.TryPut(registered(others[i], len(mem)), region, 0)
	}
	for len(hub.got) < len(others) {
		pollAll()
	}
	victim, alive := others[0], held(t)
	require.NoError(t, victim.Close())
	for len(hub.downs) == 0 {
		pollAll()
	}
	hub.Poll(&hub.sink)
	require.Equal(t, alive["qp"]-4, held(t)["qp"], "two pairs for frames, two for reads")
	conns[1].fails(errors.New("a lane that fails"))
	for conns[1].heals == 0 {
		pollAll()
	}
	for _, p := range others[1:] {
		p.Depart()
	}
	for hub.leaves < len(others)-1 {
		pollAll()
	}
	for _, p := range others {
		require.NoError(t, p.Close())
	}
	hub.Poll(&hub.sink)
	require.Equal(t, before["qp"], held(t)["qp"], "pairs of a process that all others have left")
	hub.Depart()
	require.NoError(t, hub.Close())
}
