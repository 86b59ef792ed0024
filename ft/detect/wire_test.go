package detect

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/proc"
)

var wireSamples = [][]byte{
	frameBeat, frameFar, frameProbe, frameHere,
	appendTell(nil, flagAgain, 3, []entry{{id: 200, cause: proc.Cause{Kind: proc.Exited, Code: -1}}, {id: 1}}),
	appendTell(nil, flagLoose, 0, []entry{{id: 7, cause: proc.Cause{Kind: proc.Departed}}}),
	appendAck(nil, 0, 300), appendAsk(nil, 1<<40, []proc.ID{1, 2, 299}), appendAnswer(nil, 7), appendVouch(nil, 0),
}

// encode is what a correct process writes for a frame.
func (f *frame) encode() []byte {
	switch f.kind {
	case kindBeat:
		return []byte{kindBeat, f.flags}
	case kindTell:
		return appendTell(nil, f.flags, f.from, f.entries)
	case kindAck:
		return appendAck(nil, f.from, f.to)
	case kindAsk:
		return appendAsk(nil, f.round, f.ids)
	case kindAnswer:
		return appendAnswer(nil, f.round)
	case kindVouch:
		return appendVouch(nil, f.ids[0])
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
		"flag":                {kindBeat, 2},
		"long varint":         {kindAnswer, 0x81, 0x00},
		"id outside the job":  appendVouch(nil, 300),
		"repeated id":         appendTell(nil, 0, 0, []entry{{id: 1}, {id: 1}}),
		"no entries":          appendTell(nil, 0, 0, nil),
		"empty ack":           appendAck(nil, 1, 1),
		"order":               appendAsk(nil, 1, []proc.ID{2, 1}),
		"cause":               {kindTell, 0, 0, 1, 1, byte(proc.Unreachable), 0},
		"loose with position": appendTell(nil, flagLoose, 1, []entry{{id: 1}}),
		"loose and again":     appendTell(nil, flagLoose|flagAgain, 0, []entry{{id: 1}}),
	} {
		require.ErrorIs(t, f.decode(b, 300), errFrame, name)
	}
}

// What is accepted is what a correct process writes, byte for byte.
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
		_ = m.Heard(7, b, ms)
		for _, a := range drained(m) {
			if a.Kind == Send {
				require.LessOrEqual(t, len(a.Payload), MaxPayload)
				require.NoError(t, fr.decode(a.Payload, 300))
			}
		}
	})
}
