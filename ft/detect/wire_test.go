package detect

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/proc"
)

var wireSamples = [][]byte{
	heartbeatFrame, farHeartbeatFrame, pingFrame, pingAckFrame,
	appendUpdate(nil, flagAgain, 3, []entry{{id: 200, cause: proc.Cause{Kind: proc.Exited, Code: -1}}, {id: 1}}),
	appendUpdate(nil, flagDirect, 0, []entry{{id: 7, cause: proc.Cause{Kind: proc.Departed}}}),
	appendAck(nil, 0, 300), appendQuery(nil, 1<<40, []proc.ID{1, 2, 299}), appendReply(nil, 7), appendAlive(nil, 0),
}

// encode is a correct process's encoding of a frame.
func (f *frame) encode() []byte {
	switch f.kind {
	case kindHeartbeat:
		return []byte{kindHeartbeat, f.flags}
	case kindUpdate:
		return appendUpdate(nil, f.flags, f.from, f.entries)
	case kindAck:
		return appendAck(nil, f.from, f.to)
	case kindQuery:
		return appendQuery(nil, f.round, f.ids)
	case kindReply:
		return appendReply(nil, f.round)
	case kindAlive:
		return appendAlive(nil, f.ids[0])
	}
	return []byte{f.kind}
}

func TestDecodeRefuses(t *testing.T) {
	var f frame
	for _, s := range wireSamples {
		require.NoError(t, f.decode(s, 300))
		require.ErrorIs(t, f.decode(append(bytes.Clone(s), 0), 300), errFrame)
		require.ErrorIs(t, f.decode(s[:len(s)-1], 300), errFrame)
	}
	for name, b := range map[string][]byte{
		"kind":                {9},
		"flag":                {kindHeartbeat, 2},
		"long varint":         {kindReply, 0x81, 0x00},
		"id outside the job":  appendAlive(nil, 300),
		"repeated id":         appendUpdate(nil, 0, 0, []entry{{id: 1}, {id: 1}}),
		"no entries":          appendUpdate(nil, 0, 0, nil),
		"empty ack":           appendAck(nil, 1, 1),
		"order":               appendQuery(nil, 1, []proc.ID{2, 1}),
		"cause":               {kindUpdate, 0, 0, 1, 1, byte(proc.Unreachable), 0},
		"loose with position": appendUpdate(nil, flagDirect, 1, []entry{{id: 1}}),
		"loose and again":     appendUpdate(nil, flagDirect|flagAgain, 0, []entry{{id: 1}}),
	} {
		require.ErrorIs(t, f.decode(b, 300), errFrame, name)
	}
}

// An accepted frame is one that a correct process encodes, byte for byte.
func FuzzDecode(f *testing.F) {
	for _, s := range wireSamples {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var fr frame
		if fr.decode(b, 300) != nil {
			return
		}
		require.Equal(t, b, fr.encode())
		require.LessOrEqual(t, len(b), MaxPayload)
		m := newMachine(3, 300, Majority)
		_ = m.Receive(7, b, ms)
		for _, a := range drained(m) {
			if a.Kind == Send {
				require.LessOrEqual(t, len(a.Payload), MaxPayload)
				require.NoError(t, fr.decode(a.Payload, 300))
			}
		}
	})
}
