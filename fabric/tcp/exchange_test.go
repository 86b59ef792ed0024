package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A handshake keeps its messages in its own memory: a rank has hundreds of them in a first exchange of all with all.
func TestTranscriptTakesNoMemory(t *testing.T) {
	hello, challenge, proof := make([]byte, helloBytes), make([]byte, challengeBytes), make([]byte, proofBytes)
	x := new(exchange)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		x.transcript = nil
		for _, b := range [][]byte{hello, challenge, proof} {
			x.record(b)
		}
	}))
	require.Len(t, x.transcript, helloBytes+challengeBytes+proofBytes)
	require.Len(t, x.next(verdictBytes), verdictBytes, "there is room for the last message")
}
