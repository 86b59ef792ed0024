package shm

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/nodemem"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Processes read each other's cards in the memory of the node: whole editions of the ones that have published
// them, and nothing else.
func TestCardsInTheMemoryOfTheNode(t *testing.T) {
	_, place := placesFor(t)
	a := open(t, Config{Self: 0, MaxProcs: 2, Node: place(0)})
	b := open(t, Config{Self: 1, MaxProcs: 2, Node: place(1)})
	require.Nil(t, a.Card(0, 1), "not published")
	b.PutCard(0, []byte("the first"))
	require.Equal(t, "the first", string(a.Card(0, 1)))
	require.Nil(t, a.Card(1, 1))
	b.PutCard(1, []byte("the second"))
	require.Equal(t, "the first", string(a.Card(0, 1)))
	require.Equal(t, "the second", string(a.Card(1, 1)))
	require.Equal(t, "the second", string(b.Card(1, 1)))
	for _, nobody := range []proc.ID{0, 2, 3, 1 << 31} {
		require.Nil(t, a.Card(0, nobody))
	}
	a.PutCard(0, []byte(strings.Repeat("c", wordsAt)))
	require.Nil(t, b.Card(0, 0), "there is no room for it")
	head, _ := a.own.cardRoom(a.own.header, 0)
	head.owner = 1
	head.length.Store(5)
	require.Nil(t, b.Card(0, 0), "another process's")
	head.owner = 0
	require.Len(t, b.Card(0, 0), 5)
	head.length.Store(wordsAt)
	require.Nil(t, b.Card(0, 0), "longer than the room")

	alone := open(t, Config{Self: 0, MaxProcs: 2})
	alone.PutCard(0, []byte("unseen"))
	require.Nil(t, alone.Card(0, 0))
	require.NoError(t, a.Close())
	a.PutCard(1, []byte("late"))
	require.Nil(t, a.Card(0, 1))
	require.Nil(t, b.Card(1, 0))
	b.PutCard(1, []byte("too late"))
	require.Equal(t, "the second", string(b.Card(1, 1)), "each once")
	b.Depart()
	require.Nil(t, b.Card(1, 1), "departed")
}

// A goroutine may look for cards while another one closes the endpoint.
func TestCardsDuringClose(t *testing.T) {
	_, place := placesFor(t)
	a := open(t, Config{Self: 0, MaxProcs: 2, Node: place(0)})
	b := open(t, Config{Self: 1, MaxProcs: 2, Node: place(1)})
	b.PutCard(0, []byte("card"))
	var wait sync.WaitGroup
	looked := make(chan bool)
	wait.Go(func() {
		for first := true; a.Card(0, 1) != nil; first = false {
			if first {
				close(looked)
			}
		}
	})
	<-looked
	require.NoError(t, a.Close())
	wait.Wait()
}

// A second program in a place is not found by the card of the first one.
func TestCardOfTheProgramBefore(t *testing.T) {
	_, place := placesFor(t)
	b := open(t, Config{Self: 1, MaxProcs: 2, Node: place(1)})
	first := open(t, Config{Self: 0, MaxProcs: 2, Node: place(0)})
	first.PutCard(0, []byte("first"))
	require.NotNil(t, b.Card(0, 0))
	require.NoError(t, first.Close())
	second := open(t, Config{Self: 0, MaxProcs: 2, Node: place(0)})
	require.False(t, second.own.shared)
	require.Nil(t, b.Card(0, 0))
}

// Cards of jobs of any size lie beside the bitmap and the words, or nowhere.
func TestRoomOfCards(t *testing.T) {
	header := make([]byte, headerBytes)
	for _, procs := range []uint32{1, 64, 65, 256, 8192, 14_000, 14_336, 14_337, proc.MaxIDs} {
		g := geometry{procs: procs}
		end := knocksAt
		if g.knockBytes() == 0 {
			end += int(procs+63) / 64 * 8
		}
		for edition := range editions {
			head, room := g.cardRoom(header, edition)
			if head == nil {
				require.Greater(t, end, wordsAt-2*2*lineBytes)
				continue
			}
			from := addressOf(room) - addressOf(header)
			require.GreaterOrEqual(t, int(from)-cardHeadBytes, end)
			require.LessOrEqual(t, int(from)+len(room), wordsAt)
			end = int(from) + len(room)
		}
	}
}

// The headers of many ranks are found by the distance between ranks.
func TestCardsOfManyRanks(t *testing.T) {
	const n = 5
	f, err := nodemem.Make(n, n)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	var all []*Provider
	for i := range n {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()), unix.O_RDWR|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		place := nodemem.At(fd, int64(i), n*(nodemem.Head(n)+nodemem.Pages(n)), n)
		all = append(all, open(t, Config{Self: proc.ID(i), MaxProcs: n, Node: place}))
		all[i].PutCard(0, fmt.Append(nil, "card of ", i))
	}
	for _, p := range all {
		for i := range n {
			require.Equal(t, fmt.Sprint("card of ", i), string(p.Card(0, proc.ID(i))))
		}
	}
}
