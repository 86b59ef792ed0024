package fabrictest

import (
	"encoding/json"
	"io"
	"sync"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// message is one line between the driver of real processes and one of them.
type message struct {
	Op     op
	Job    *Job     `json:",omitempty"` // opJob
	ID     proc.ID  // opJob: the receiver's id; opSignal: the sender's
	Name   string   `json:",omitempty"` // opSignal
	Blobs  [][]byte `json:",omitempty"` // opAddress: one; opPeers: one for each process
	Record *Record  `json:",omitempty"` // opRecord
	Text   string   `json:",omitempty"` // opWhere, the answer
}

type op string

const (
	opJob     op = "job"     // to the process: run this
	opPeers   op = "peers"   // to the process: all addresses; begin
	opSignal  op = "signal"  // both ways
	opWhere   op = "where"   // to the process: report your wait; and the answer
	opAddress op = "address" // from the process
	opRecord  op = "record"  // from the process
	opDone    op = "done"    // from the process: it will exit in order
)

// line is one end of a pipe for messages. Each is one write, so that a killed process leaves only
// whole ones or a torn last one.
type line struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *line) send(m message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return json.NewEncoder(l.w).Encode(m)
}

// receive calls fn with each whole message until the pipe ends.
func receive(r io.Reader, fn func(message)) {
	for d := json.NewDecoder(r); ; {
		var m message
		if d.Decode(&m) != nil {
			return
		}
		fn(m)
	}
}
