package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A peer that was dialled may send as soon as it has accepted the dialler, and die. Its frames are
// delivered, also if its end is known from elsewhere before the dialler has read the verdict.
func TestInformedBeforeTheVerdict(t *testing.T) {
	var p [2]*Provider
	for i := range p {
		var err error
		p[i], err = Open(Config{Inet: true, Self: proc.ID(i), MaxProcs: 2, Secret: []byte("the secret of these two")})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p[i].Close()) })
	}
	conn, err := p[0].Connect(fabric.ConnectSpec{Peer: 1, Address: p[1].Address()})
	require.NoError(t, err)
	dialler := conn.(*Conn)
	s := [2]*collector{newCollector(), newCollector()}
	for dialler.state != dialling || dialler.dial.stage != proofSent {
		p[0].Poll(&s[0].Sink)
		p[1].Poll(&s[1].Sink)
	}
	var admitting *Conn
	for admitting == nil || admitting.state != up {
		p[1].Poll(&s[1].Sink)
		admitting, _ = p[1].Lookup(0).(*Conn)
	}
	require.Equal(t, dialling, dialler.state)
	require.True(t, admitting.TrySend(fabric.ClassTest, 0, []byte("last words")))

	killed := proc.Cause{Kind: proc.Signaled, Code: 9}
	p[0].Inform(1, killed)
	p[0].idlePolls, p[0].polls = 0, 0 // a turn without a look at all sockets
	for len(s[0].ended) == 0 {
		p[0].Poll(&s[0].Sink)
	}
	require.Equal(t, [][]byte{[]byte("last words")}, s[0].got)
	require.Equal(t, []proc.Cause{killed}, s[0].ended)
}
