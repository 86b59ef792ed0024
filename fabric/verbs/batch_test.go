//go:build cgo

package verbs

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/flusher"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// steady gives two endpoints whose flushers do nothing, after the first frames.
func steady(t *testing.T) (p [2]*peer, c [2]*Conn) { return steadyWith(t, mostRails) }

// steadyWith is steady with so many ports at most.
func steadyWith(t *testing.T, ports int) (p [2]*peer, c [2]*Conn) {
	p = newPeersWith(t, ports)
	c = lanes(t, p)
	for i := range p {
		if p[i].flush == nil {
			p[i].flush = flusher.New(false, p[i].flushBatch)
		}
		p[i].flush.Close()
	}
	for !c[0].receiving || !c[1].receiving || p[0].onWay+p[1].onWay > 0 {
		poll(p)
		p[0].EndBurst()
		p[1].EndBurst()
	}
	p[0].asking, p[1].asking = 0, 0
	return p, c
}

// sendNumber sends a frame of 8 bytes that must be accepted.
func sendNumber(t *testing.T, c *Conn, n int) {
	payload := binary.LittleEndian.AppendUint64(nil, uint64(n))
	require.True(t, c.TrySend(fabric.ClassTest, uint64(n), payload))
}

// The first frame of a batch is posted at once, the others by one call together, which each call of the provider
// makes. The receiver takes them with one call as well.
func TestBatch(t *testing.T) {
	if noAdapter(t) {
		return
	}
	const n = 20
	p, c := steady(t)
	sent := 0
	for name, end := range map[string]func(){
		"poll":   func() { p[0].Poll(&p[0].sink) },
		"sleep":  func() { p[0].Ready() },
		"await":  func() { c[0].Await(fabric.ClassTest, 0, nil, 1) },
		"unsent": func() { c[0].Unsent() },
		"burst":  func() { p[0].EndBurst() },
		"long":   func() { require.True(t, c[0].TrySend(fabric.ClassTest+1, 0, make([]byte, 2*batchBytes))) },
	} {
		for len(p[1].got) < sent || p[0].onWay > 0 || c[0].credit <= n {
			poll(p)
			p[0].EndBurst()
		}
		before := p[0].Calls().Busy
		for range n {
			sendNumber(t, c[0], sent)
			sent++
		}
		require.EqualValues(t, 1, p[0].ports[0].d.calls.Busy-before, "%s: the first is posted at once, and no other", name)
		require.Equal(t, n-1, messagesWaiting(p[0]), name)
		end()
		require.Zero(t, p[0].ports[0].d.sending, name)
		require.LessOrEqual(t, p[0].Calls().Busy-before, uint64(5), name)
		before = p[1].Calls().Busy
		for len(p[1].got) < sent {
			p[1].Poll(&p[1].sink)
		}
		if p[0].ports[0].d.links == nil { // messages of iWARP do not say that others follow
			require.LessOrEqual(t, p[1].Calls().Busy-before, uint64(n/4), name)
		}
	}
	inOrderOne(t, p[1], sent)
}

// messagesWaiting is the number of messages of the next round.
func messagesWaiting(p *peer) (n int) {
	for _, s := range p.ports[0].d.r.sends[:p.ports[0].d.sending] {
		if s.what == workMessage {
			n++
		}
	}
	return n
}

// A receiver that looks while a batch arrives takes most of it with one call.
func TestBatchThatArrives(t *testing.T) {
	if noAdapter(t) {
		return
	}
	const n, batches = 16, 50
	p, c := steady(t)
	for c[0].credit < mostCredit { // none returns credit in a batch
		poll(p)
	}
	before, next := p[1].Calls().Busy, make(chan struct{})
	go func() {
		for i := range batches {
			for c[0].credit < n+1 {
				p[0].Poll(&p[0].sink)
			}
			for k := range n {
				payload := binary.LittleEndian.AppendUint64(nil, uint64(i*n+k))
				for !c[0].TrySend(fabric.ClassTest, uint64(i*n+k), payload) { // a completion comes late
					p[0].Poll(&p[0].sink)
				}
			}
			p[0].endBatch()
			<-next
		}
	}()
	for i := range batches {
		for len(p[1].got) < (i+1)*n {
			p[1].Poll(&p[1].sink)
		}
		next <- struct{}{}
	}
	if p[1].ports[0].d.links == nil { // messages of iWARP do not say that others follow
		require.Less(t, p[1].Calls().Busy-before, uint64(n*batches/2))
	}
	inOrderOne(t, p[1], n*batches)
}

func inOrderOne(t *testing.T, p *peer, n int) {
	require.Len(t, p.got, n)
	for i, imm := range p.got {
		require.EqualValues(t, i, imm)
	}
}

// The frames of a batch reach the peer although their sender computes.
func TestBatchOfAComputingProcess(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p := newPeers(t)
	c := lanes(t, p)
	const n = 5
	for sent := 0; sent < 20*n; {
		for c[0].credit < n {
			poll(p)
		}
		for range n {
			sendNumber(t, c[0], sent)
			sent++
		}
		for len(p[1].got) < sent {
			p[1].Poll(&p[1].sink)
		}
	}
	inOrderOne(t, p[1], 20*n)
}

// Answers that are sent in one Poll are posted at its end, but for the first.
func TestAnswersAreOneBatch(t *testing.T) {
	if noAdapter(t) {
		return
	}
	const n = 10
	p, c := steady(t)
	answers := 0
	p[1].sink.Deliver[fabric.ClassTest] = func(proc.ID, uint64, []byte) {
		sendNumber(t, c[1], answers)
		answers++
	}
	for i := range n {
		sendNumber(t, c[0], i)
	}
	require.Equal(t, n-1, messagesWaiting(p[0]))
	p[0].endBatch()
	before := p[1].Calls().Busy
	for answers < n {
		p[1].Poll(&p[1].sink)
	}
	require.Less(t, p[1].Calls().Busy-before, uint64(n))
	require.Zero(t, p[1].ports[0].d.sending)
	for len(p[0].got) < n {
		p[0].Poll(&p[0].sink)
	}
	inOrderOne(t, p[0], n)
}

// Most messages of a stream have no completion, and yet the sender learns that the last ones have arrived.
func TestLastMessagesAreAcknowledged(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steady(t)
	for i := range mostCredit / 2 {
		sendNumber(t, c[0], i)
	}
	require.NotZero(t, c[0].quiet)
	for !p[0].EndBurst() {
	}
	require.Zero(t, p[0].onWay)
	require.Empty(t, c[0].out)
	sendNumber(t, c[0], mostCredit/2)
	sendNumber(t, c[0], mostCredit/2+1)
	for c[0].Unsent() {
		p[0].Poll(&p[0].sink)
	}
	require.Empty(t, c[0].out)
}

// Messages of which each follows an answer have no completion but now and then, unless this process asks for the last one.
func TestLoneMessagesAreNotAcknowledged(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steady(t)
	n := p[0].ring()/4 - 1
	for i := range n {
		sendNumber(t, c[0], i)
		for len(p[1].got) <= i {
			poll(p)
		}
	}
	require.Len(t, c[0].out, n, "none has a completion")
	for sent := n; len(c[0].out) >= n; sent++ {
		require.Equal(t, n, sent, "the next one has")
		sendNumber(t, c[0], sent)
		for range 1000 {
			poll(p)
		}
	}
	require.Empty(t, c[0].out)
	p[0].EndBurst()
	for i := range askingFor {
		sendNumber(t, c[0], n+1+i)
		for len(c[0].out) > 0 {
			poll(p)
		}
	}
	for len(p[1].got) < n+1+askingFor {
		poll(p)
	}
	sendNumber(t, c[0], n+1+askingFor)
	inOrderOne(t, p[1], n+1+askingFor)
	for len(p[1].got) < n+2+askingFor {
		poll(p)
	}
	require.Len(t, c[0].out, 1, "it has not asked for a while")
}

// A process that sleeps hears of a message that no adapter acknowledges.
func TestFailedMessageWakes(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steady(t)
	c[1].pair.fail()
	sendNumber(t, c[0], 0)
	for p[0].Ready() {
		p[0].Poll(&p[0].sink)
	}
	if p[0].ports[0].d.links != nil && !c[0].sending { // of iWARP pairs both ends fail
		return
	}
	require.True(t, c[0].sending, "the failure is known already")
	fds := []unix.PollFd{{Fd: int32(p[0].ports[0].d.fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 20_000)
	require.NoError(t, err)
	require.Equal(t, 1, n, "nothing has come in 20 s")
	for c[0].sending {
		p[0].Poll(&p[0].sink)
	}
}

// Await receives the one awaited frame, and leaves every other one, and all other work, to Poll.
func TestAwait(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steady(t)
	buf := make([]byte, 16)
	await := func(imm uint64) (n int) {
		for n = fabric.NotYet; n == fabric.NotYet; {
			n = c[1].Await(fabric.ClassTest, imm, buf, 1)
		}
		return n
	}
	taken := 0
	for i := range 1000 {
		for c[0].credit == 0 {
			poll(p)
		}
		sendNumber(t, c[0], i)
		p[0].endBatch()
		if n := await(uint64(i)); n >= 0 {
			require.Equal(t, 8, n)
			require.EqualValues(t, i, binary.LittleEndian.Uint64(buf))
			taken++
		}
		p[1].Poll(&p[1].sink)
	}
	for len(p[1].got) < 1000-taken {
		p[1].Poll(&p[1].sink)
	}
	require.NotZero(t, taken) // in each few milliseconds Await leaves one to Poll
	require.EqualValues(t, 1000, c[1].Received()-c[1].Conn.Received())

	for c[0].credit < 2 {
		poll(p)
	}
	sendNumber(t, c[0], 7)
	p[0].endBatch()
	require.Less(t, await(8), fabric.NotYet, "another frame")
	for len(p[1].got) == 1000-taken {
		p[1].Poll(&p[1].sink)
	}
	c[1].pair.fail() // frames that come twice are dropped by Poll
	sendNumber(t, c[0], 8)
	for c[0].sending || c[1].receiving {
		poll(p)
	}
	c[1].skip++
	require.Less(t, c[1].Await(fabric.ClassTest, 8, buf, 1), fabric.NotYet)
}

// The events that Ready has found at the sockets are there for the next Poll.
func TestSocketsAreReadAfterReady(t *testing.T) {
	if noAdapter(t) {
		return
	}
	p, c := steady(t)
	for range 100 {
		c[0].say(&note{word: ready}) // again: it changes nothing
		for !p[1].Ready() {
		}
		for polls := 0; p[1].Ready(); polls++ { // the sockets look at all connections now and then
			p[1].Poll(&p[1].sink)
			require.Less(t, polls, 64)
		}
	}
}
