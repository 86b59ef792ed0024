package p2p

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// The sender copies parts of a long message if it waits for its end, and nothing is wrong if it does not.
func TestSenderSharesTheCopy(t *testing.T) {
	t.Run("blocks", func(t *testing.T) { sharedCopies(t, true) })
	t.Run("other memory", func(t *testing.T) { sharedCopies(t, false) })
}

func sharedCopies(t *testing.T, blocks bool) {
	p, e, c := connectedProviders(t, false)
	const n = 8 << 20 // the sender is ready before the receiver has copied all
	from, to := make([]byte, n), make([]byte, n)
	if blocks {
		var err error
		from, _, err = p[0].MakeBlock(n)
		require.NoError(t, err)
		to, _, err = p[1].MakeBlock(n)
		require.NoError(t, err)
	}
	for i := range from {
		from[i] = byte(i%251 + 1)
	}
	receive := func(waits bool) (pushed bool) {
		clear(to)
		var before uint64
		if l := e[1].findLink(0); l != nil {
			before = l.finCount
		}
		h := Isend[Aware](c[0], from, 1, 5)
		done := make(chan error)
		if waits {
			go func() { _, err := e[0].Wait(h); done <- err }()
		}
		st, err := Recv[Aware](c[1], to, 0, 5)
		require.NoError(t, err)
		require.Equal(t, n, st.Count)
		require.Equal(t, from, to)
		if !waits {
			go func() { _, err := e[0].Wait(h); done <- err }()
		}
		require.NoError(t, <-done)
		return e[1].findLink(0).finCount > before
	}
	require.False(t, receive(false))
	shared := 0
	for range 1000 {
		if receive(true) {
			shared++
		}
		if shared == 10 {
			break
		}
	}
	require.Equal(t, 10, shared, "the sender helps")
	require.False(t, receive(false), "it comes late")
	for _, at := range e {
		require.Zero(t, at.refused)
		require.Zero(t, at.active)
	}
	require.Zero(t, e[0].findLink(1).announced)
}

// A send that the receiver has confirmed before this process has copied its part ends with that, and without an error if the
// receiver dies then.
func TestConfirmedDuringACopy(t *testing.T) {
	_, e, c := connectedProviders(t, false)
	const n = 1 << 20
	_, err := e[1].Wait(Isend[Aware](c[1], nil, 0, 4)) // a wait looks elsewhere at the first frame of all
	require.NoError(t, err)
	_, err = Recv[Aware](c[0], nil, 1, 4)
	require.NoError(t, err)
	h := Isend[Aware](c[0], make([]byte, n), 1, 5)
	received := Irecv[Aware](c[1], make([]byte, n), 0, 5)
	e[1].findLink(0).announced++ // so it offers nothing
	_, err = e[1].Wait(received)
	require.NoError(t, err)
	e[1].findLink(0).announced--

	copied := false
	e[0].Lock()
	h.r.busy = true
	h.r.job = progress.Job{Run: func(*progress.Job) {
		copied = h.r.link != nil
		e[0].Lock()
		e[0].findLink(1).failActive(func(*Request) error { return errors.New("the receiver has failed") })
		e[0].Unlock()
	}, Done: donePush, Arg: h.r}
	e[0].p.Submit(&h.r.job)
	e[0].Unlock()
	_, err = e[0].Wait(h)
	require.NoError(t, err)
	require.True(t, copied)
}

// Offers that a peer must not make are refused.
func TestMalformedOffers(t *testing.T) {
	s, e, c := newScripted(t)
	h := Isend[Aware](c, make([]byte, 1<<20), 1, 0)
	name := h.r.wire()
	require.True(t, h.r.announced)
	short := appendOffer(nil, offer{receiver: 1})[:offerFixed-1]
	s.inbox = []frame{{fabric.ClassCTS, name, short}, {fabric.ClassCTS, name + 1, append(short, 1)}}
	e.poll()
	require.EqualValues(t, 2, e.refused)
	s.inbox = []frame{{fabric.ClassCTS, name, append(short, 1)}} // of memory that is not there
	e.poll()
	require.EqualValues(t, 2, e.refused)
	s.inbox = []frame{{fabric.ClassFin, name, nil}}
	e.poll()
	e.poll()
	require.True(t, h.r.Done())
}

func FuzzOffer(f *testing.F) {
	f.Add(appendOffer(nil, offer{receiver: 7, message: 9, to: fabric.Region{Addr: 1, Key: []byte("key")}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if o, ok := decodeOffer(b); ok {
			require.Equal(t, b, appendOffer(nil, o))
		}
	})
}
