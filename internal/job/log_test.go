package job

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each event is one line: the rank, the peer and the fabric first, the reason last.
func TestLineHandler(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(lineHandler{to: &out})
	log.Info("settings: spins = 3", "origin", "a file")
	log = log.With("rank", 0)
	log.With("fabric", "tcp").Info("connected", "peer", 3, "reason", errors.New("no\npath"), "path", "a > b")
	log.Debug("not printed")
	require.Equal(t, "banyan: settings: spins = 3, origin a file\n"+
		"banyan: rank 0: peer 3: tcp: connected, path a > b: no path\n", out.String())
}

// The sockets' first event of a peer has the reasons of its route; before the route it is dropped.
func TestConnLogJoins(t *testing.T) {
	require.Nil(t, newConnLog(nil).ofSockets())
	var out bytes.Buffer
	m := newConnLog(slog.New(lineHandler{to: &out}))
	log := m.ofSockets()
	log.Info("connected", "peer", 1)
	log.Info("refused", "from", "x")
	m.waiting[1] = &reason{why: "not shm: far", late: time.NewTimer(time.Hour)}
	log.Info("connected", "peer", 1)
	log.Info("connected again", "peer", 1)
	require.Equal(t, "banyan: tcp: refused, from x\nbanyan: peer 1: tcp: connected: not shm: far\n"+
		"banyan: peer 1: tcp: connected again\n", out.String())
}
