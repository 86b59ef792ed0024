package p2p

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/ft"
)

// atOnce is a pair that has exchanged messages, rank 0 with a block.
func atOnce(t *testing.T) (e [2]*Engine, c [2]*Comm, mem []byte) {
	_, e, c, mem = atOnceProviders(t)
	return e, c, mem
}

func atOnceProviders(t *testing.T) (p [2]*shm.Provider, e [2]*Engine, c [2]*Comm, mem []byte) {
	p, e, c = connectedProviders(t, true)
	for from := range 2 {
		done := make(chan error)
		go func() { done <- Send[Aware](c[from], []byte{1}, 1-from, 9) }()
		_, err := Recv[Aware](c[1-from], make([]byte, 1), from, 9)
		require.NoError(t, err)
		require.NoError(t, <-done)
	}
	mem, _, err := p[0].MakeBlock(200_000)
	require.NoError(t, err)
	for i := range mem {
		mem[i] = byte(i % 251)
	}
	receive(t, c, mem[:100_000]) // maps the block
	return p, e, c, mem
}

// receive sends memory of rank 0 to rank 1, and returns the request of the send.
func receive(t *testing.T, c [2]*Comm, mem []byte) {
	h := Isend[Aware](c[0], mem, 1, 9)
	got := make([]byte, len(mem))
	st, err := Recv[Aware](c[1], got, 0, 9)
	require.NoError(t, err)
	require.Equal(t, Status{Source: 0, Tag: 9, Count: len(mem)}, st)
	require.Equal(t, mem, got)
	_, err = c[0].e.Wait(h)
	require.NoError(t, err)
}

// A message from a block that has been announced is copied by Recv itself, without a request, if it is short and fits.
func TestRecvCopiesWhatIsAnnounced(t *testing.T) {
	e, c, mem := atOnce(t)
	pools := func() []int { return []int{len(e[1].requests), int(e[1].requests[0].gen)} }
	before := pools()
	receive(t, c, mem[:copiedNow])
	receive(t, c, mem[5:][:40_000])
	require.Equal(t, before, pools())
	_, heard := e[1].Announced(0)
	require.Equal(t, Rendezvous{3, 100_000 + copiedNow + 40_000}, heard)
	require.Zero(t, e[0].findLink(1).announced)
	receive(t, c, mem[:copiedNow+1])
	require.NotEqual(t, before, pools(), "a longer one is copied without the lock")

	h := Isend[Aware](c[0], mem[:40_000], 1, 9)
	st, err := Recv[Aware](c[1], make([]byte, 39_999), 0, 9)
	require.ErrorIs(t, err, ft.ErrTruncate)
	require.Equal(t, 39_999, st.Count)
	_, err = e[0].Wait(h)
	require.NoError(t, err)

	h = Isend[Aware](c[0], mem[:40_000], 1, 8)
	require.NoError(t, Send[Aware](c[0], []byte{7}, 1, 9))
	b := []byte{0}
	_, err = Recv[Aware](c[1], b, 0, 9)
	require.NoError(t, err)
	require.EqualValues(t, 7, b[0], "of another tag")
	_, err = Recv[Aware](c[1], make([]byte, 40_000), 0, 8)
	require.NoError(t, err)
	_, err = e[0].Wait(h)
	require.NoError(t, err)
}

// A message that is lent is borrowed at once if it is the next one and nothing else waits for it. LendNow returns when it
// has come back.
func TestBorrowNow(t *testing.T) {
	e, c, mem := atOnce(t)
	returned := make(chan error)
	go func() {
		done, err := LendNow(c[0], mem, 1, 5)
		require.True(t, done)
		returned <- err
	}()
	ln := BorrowNow(c[1], 0, 5)
	for ln == nil { // it has not come yet
		ln = BorrowNow(c[1], 0, 5)
	}
	require.Equal(t, Status{Source: 0, Tag: 5, Count: len(mem)}, ln.Status())
	mem[17] = 99
	require.Equal(t, mem, ln.Bytes(), "it is the same memory")
	require.Zero(t, e[1].unexpected.n)
	require.Same(t, ln, e[1].borrowed.loan)
	select {
	case <-returned:
		t.Fatal("the loan is out")
	default:
	}
	require.NoError(t, ln.Return())
	require.NoError(t, <-returned)
	require.ErrorIs(t, ln.Return(), ft.ErrArgument)
	require.Nil(t, e[1].borrowed)
	require.Equal(t, Borrowed{InPlace: 1}, e[1].Borrowed(0))
	_, heard := e[1].Announced(0)
	require.EqualValues(t, 2, heard.Messages)
	require.Zero(t, e[0].findLink(1).announced)
}

// A Fin before the announcement is taken on the way, so ranks that lend to each other borrow at once.
func TestBorrowNowTakesFins(t *testing.T) {
	p, e, c, mem := atOnceProviders(t)
	back, _, err := p[1].MakeBlock(100)
	require.NoError(t, err)
	there := Lend[Aware](c[1], back, 0, 5)
	first := BorrowNow(c[0], 1, 5)
	require.NotNil(t, first)
	require.NoError(t, first.Return())
	h := Lend[Aware](c[0], mem, 1, 5)
	ln := BorrowNow(c[1], 0, 5)
	require.NotNil(t, ln)
	require.Equal(t, mem, ln.Bytes())
	require.Zero(t, e[1].findLink(0).announced, "its own loan has come back")
	require.NoError(t, ln.Return())
	require.ErrorIs(t, first.Return(), ft.ErrArgument, "a record that is used again is no loan that is used again")
	for _, at := range []struct {
		e *Engine
		h Handle
	}{{e[0], h}, {e[1], there}} {
		_, err := at.e.Wait(at.h)
		require.NoError(t, err)
	}
	require.Zero(t, e[1].refused)
}

// Nothing is borrowed at once that belongs to another call, or that is not lent.
func TestBorrowNowLeavesTheRest(t *testing.T) {
	e, c, mem := atOnce(t)
	unchanged := func(tag int, why string) {
		t.Helper()
		require.True(t, BorrowNow(c[1], 0, tag) == nil, why)
	}
	take := func(h Handle) {
		st, err := Recv[Aware](c[1], make([]byte, len(mem)), 0, 5)
		require.NoError(t, err)
		require.Equal(t, len(mem), st.Count)
		_, err = e[0].Wait(h)
		require.NoError(t, err)
	}
	h := Isend[Aware](c[0], mem, 1, 5)
	unchanged(5, "it is not lent")
	take(h)

	h = Lend[Aware](c[0], mem, 1, 5)
	unchanged(6, "it has another tag")
	take(h)

	posted := Irecv[Aware](c[1], make([]byte, len(mem)), 0, 5)
	h = Lend[Aware](c[0], mem, 1, 5)
	unchanged(5, "a receive has been posted")
	_, err := e[1].Wait(posted)
	require.NoError(t, err)
	_, err = e[0].Wait(h)
	require.NoError(t, err)

	probe := BeginProbe[Aware](c[1], 0, 5, ForMprobe)
	Lend[Aware](c[0], mem, 1, 5)
	unchanged(5, "a probe waits for it")
	_, err = e[1].Wait(probe)
	require.NoError(t, err)
}

// An announcement from a block fits into a line of shared memory.
func TestAnnouncementsAreShort(t *testing.T) {
	const line = 48
	key := make([]byte, len(fabric.BlockName{}))
	require.Len(t, appendRTS(nil, rts{sender: 1, total: 9, region: fabric.Region{Addr: 1, Len: 9, Key: key}}), line)
}
