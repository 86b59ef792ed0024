package banyan_test

import (
	"encoding/binary"
	"runtime"

	"github.com/banyan-hpc/banyan/fabric"
	stack "github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// flood sends frames to rank 0 until rank 0 has ended the connection, and looks at nothing that it is told: neither
// at grants nor at answers. kind says which frames.
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
		payload = make([]byte, 4000) // a contribution to an agreement that has not begun: its context and number
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
	e := stack.Joined().Progress
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
