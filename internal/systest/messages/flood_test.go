package messages

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

const floodEnv = "BANYAN_TEST_FLOOD"

// mostGrown bounds the growth of a rank's memory while a peer floods it, in KiB.
const mostGrown = 20 << 10

// unbridled has rank 1 send without a limit, and rank 0 wait for another message.
func unbridled(w *banyan.World) error {
	c := w.Comm()
	if err := c.Barrier(); err != nil {
		return err
	}
	if c.Rank() == 1 {
		flood(os.Getenv(floodEnv))
		return nil
	}
	before, err := peak()
	if err != nil {
		return err
	}
	_, err = c.Recv(make([]byte, 8), 1, 6)
	after, perr := peak()
	switch {
	case perr != nil:
		return perr
	case err == nil || !strings.Contains(err.Error(), "corrupt data"):
		return fmt.Errorf("the receive has ended with %w", err)
	case after-before > mostGrown:
		return fmt.Errorf("rank 0 has grown by %d KiB", after-before)
	}
	fmt.Fprintf(os.Stderr, "grown by %d KiB: %v\n", after-before, err)
	return nil
}

// peak is the largest amount of memory that this process has had, in KiB.
func peak() (kib int, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib, nil
		}
	}
	return 0, fmt.Errorf("no VmHWM in %q", status)
}

// flood sends frames of a kind to rank 0 until rank 0 has ended the connection, and ignores grants and
// answers.
func flood(kind string) {
	const world, unknown = 1 << 32, 77 << 32 // contexts
	le := binary.LittleEndian
	class, imm, payload := fabric.ClassEager, uint64(world|5), make([]byte, 8)
	switch kind {
	case "short":
	case "long":
		payload = make([]byte, 4000)
	case "unknown communicator":
		imm = unknown
	case "fragments":
		class = fabric.ClassFirst
		payload = le.AppendUint64(nil, 60<<20)
	case "announced":
		class = fabric.ClassRTS
		payload = make([]byte, 32)
		le.PutUint64(payload[8:], 1000)
	case "agreements":
		class, imm = fabric.ClassAgree, 0
		payload = make([]byte, 4000) // a contribution to an agreement that has not started: its context and number
		payload[0] = 1
		le.PutUint32(payload[3:], 99)
		le.PutUint32(payload[11:], 1)
	case "pieces":
		class, imm, payload = fabric.ClassAgree, 1, make([]byte, 4000)
	case "asks":
		class, imm, payload = fabric.ClassFlow, 0, nil
	default:
		panic(kind)
	}
	e := job.Joined().Progress
	ep, err := e.Endpoint(proc.ID(0))
	if err != nil {
		panic(err)
	}
	for alive := true; alive; runtime.Gosched() {
		e.Lock()
		for range 1000 {
			if !ep.TrySend(class, imm, payload) {
				break
			}
		}
		if kind != "asks" { // whose answers are not to be read
			e.Progress()
		}
		alive = ep.State == progress.Alive
		e.Unlock()
	}
}

// A peer that has the secret and ignores its credit is cut off as corrupt, and the memory of the
// flooded rank stays small.
func TestUnbridledPeer(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		for _, kind := range []string{
			"short", "long", "unknown communicator", "fragments", "announced", "agreements", "pieces", "asks",
		} {
			if fabric == "tcp" && kind == "asks" {
				continue // without polls the peer sends nothing either
			}
			t.Run(fabric+"/"+kind, func(t *testing.T) {
				res, out := ranktest.Job(t, launch.Continue, 2, "unbridled", "BANYAN_FABRIC="+fabric, floodEnv+"="+kind)
				require.False(t, res.Ends[0].Failed(), "%v\n%s", res.Ends, out)
				t.Log(out)
			})
		}
	}
}
