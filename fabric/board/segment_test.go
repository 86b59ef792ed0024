package board

import (
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/release"
)

func TestSlotIsALine(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(Slot{}))
	require.EqualValues(t, bufferBytes, unsafe.Sizeof(Buffer{}))
	require.EqualValues(t, 64, unsafe.Sizeof(line{}))
	require.EqualValues(t, 1024, unsafe.Sizeof(Common{}))
}

// Parts of all members fit, each on lines of its own.
func TestRoom(t *testing.T) {
	for members := 1; members <= MaxMembers; members++ {
		wide, room := Wide(members), Room(members)
		require.LessOrEqual(t, 2*(members+groupsOf(members, GroupSize))*wide, PartsBytes(members))
		require.Zero(t, wide%lineBytes)
		require.Zero(t, room%lineBytes)
		require.GreaterOrEqual(t, room, lineBytes)
		require.GreaterOrEqual(t, wide, room)
	}
	require.Equal(t, 1024, Room(21))
	require.Equal(t, 320, Room(64))
	require.Equal(t, 256, Room(128))
	require.Equal(t, 16<<10+64, Wide(8))
	require.Equal(t, 256, Wide(128), "of several groups a part and a sum have the same room")
}

// Each member sees that one has come for another operation, and all read the right parts again in the next step, whatever
// the others have called before.
func TestOtherOperations(t *testing.T) {
	const barrier, sum = 1, 2
	slots, common, buffers := make([]Slot, 3), new(Common), make([]Buffer, Buffers)
	parts := make([]byte, PartsBytes(3))
	members := make([]Phase, 3)
	for i := range members {
		members[i] = Open(slots, common, buffers, parts).Phase(i)
	}
	step := func(ops string) (others []int) {
		for i := range members {
			p := &members[i]
			switch ops[i] {
			case 'b':
				p.Come(barrier)
			case 's':
				copy(p.Place(sum, 1), []byte{byte(10*p.Step()) + byte(i)})
			case 'l': // a payload for all
				p.Lay([]byte{7})
			case 'c':
				p.Collect(sum)
			case 'x':
				p.BringElsewhere(sum)
			}
			p.Enter(Everyone)
		}
		for i := range members {
			p := &members[i]
			require.True(t, p.Here())
			p.End()
			others = append(others, p.Other())
			for member := range members {
				if part, length := p.Brought(member); ops[i] == 's' && ops[member] != 's' {
					require.Equal(t, NoPart, length)
				} else if ops[i] == 's' {
					require.Equal(t, []byte{byte(10*(p.Step()-1)) + byte(member)}, part)
				}
			}
		}
		return others
	}
	require.Equal(t, []int{-1, -1, -1}, step("sss"))
	require.Equal(t, []int{1, 2, 1}, step("sbs"))
	require.Equal(t, []int{-1, -1, -1}, step("sss"))
	require.Equal(t, []int{-1, 0, 0}, step("lss"))
	require.Equal(t, []int{-1, -1, -1}, step("sss"))
	require.Equal(t, []int{-1, -1, -1}, step("bbb"))
	require.Equal(t, []int{1, 2, 1}, step("bxb"))
	require.Equal(t, -1, step("css")[0], "it brings none itself")
	require.Equal(t, []int{-1, -1, -1}, step("sss"))
}

// After any number of broadcasts and collections all members wait for the same ones in the next step, as they wake only their
// neighbours.
func TestAllWaitForTheSame(t *testing.T) {
	for before := range 2 * Buffers {
		slots, common, buffers := make([]Slot, 2), new(Common), make([]Buffer, Buffers)
		parts := make([]byte, PartsBytes(2))
		leader, member := Open(slots, common, buffers, parts).Phase(0), Open(slots, common, buffers, parts).Phase(1)
		bcasts := func(n int) {
			for range n {
				require.Equal(t, leader.From(0), member.From(0), "step %d, after %d broadcasts", member.Step()+1, before)
				leader.Enter(leader.From(0))
				member.Enter(member.From(0))
				leader.End()
				member.End()
			}
		}
		bcasts(before)
		leader.Collect(partsOp)
		member.Bring(partsOp, nil)
		leader.Enter(Everyone)
		member.Enter(1)
		leader.End()
		bcasts(1)
		member.Follow()
		bcasts(2 * Buffers)
	}
}

// A member has a payload as soon as it is laid: the root need not have entered.
func TestPayloadIsEnough(t *testing.T) {
	slots, common, buffers := make([]Slot, 2), new(Common), make([]Buffer, Buffers)
	parts := make([]byte, PartsBytes(2))
	root, member := Open(slots, common, buffers, parts).Phase(0), Open(slots, common, buffers, parts).Phase(1)
	member.Enter(member.From(0))
	require.False(t, member.Here())
	root.Lay([]byte{7})
	require.True(t, member.Here())
	laid, length, ok := member.Laid(0)
	require.True(t, ok)
	require.Equal(t, 1, length)
	require.Equal(t, []byte{7}, laid)
}

// Where the root enters while a member goes to sleep, the root sees the nap, or the member sees the payload.
func TestNapIsSeen(t *testing.T) {
	slots, common, buffers := make([]Slot, 2), new(Common), make([]Buffer, Buffers)
	parts := make([]byte, PartsBytes(2))
	root, member := Open(slots, common, buffers, parts).Phase(0), Open(slots, common, buffers, parts).Phase(1)
	rounds := int64(300_000)
	if testing.Short() {
		rounds = 20_000
	}
	var rooted, slept atomic.Int64
	until := func(at *atomic.Int64, round int64) {
		for at.Load() < round {
			runtime.Gosched()
		}
	}
	sees := make([]bool, rounds)
	go func() {
		for i := range rounds {
			until(&slept, i)
			root.Lay([]byte{1})
			root.Enter(0)
			sees[i] = root.Naps(1)
			rooted.Store(i + 1)
		}
	}()
	lost := 0
	for i := range rounds {
		member.Enter(0)
		for range i % 12 { // so that the two meet in some rounds
			release.Pause()
		}
		member.Nap()
		saw, _ := member.Doze()
		until(&rooted, i+1)
		if saw == Nothing && !sees[i] {
			lost++
		}
		slept.Store(i + 1)
	}
	require.Zero(t, lost, "naps that nobody saw")
}

// A part that is too long is reported as elsewhere. A payload of others or of other steps is not taken for one's own.
// Memory serves others when all have left.
func TestSegment(t *testing.T) {
	h := Open(make([]Slot, 2), new(Common), make([]Buffer, Buffers), make([]byte, PartsBytes(2)))
	h.Bring(0, 1, 1, partsOp, []byte{1, 2})
	h.Lay(0, 1, []byte{3})
	require.False(t, h.Entered(0, 1))
	h.Enter(0, 1)
	require.True(t, h.Entered(0, 1))
	require.False(t, h.Entered(0, 2))
	part, n := h.Brought(0, 1)
	require.Equal(t, []byte{1, 2}, part)
	require.Equal(t, 2, n)
	h.Bring(0, 2, 0, partsOp, make([]byte, Wide(2)+1))
	_, n = h.Brought(0, 0)
	require.Equal(t, Elsewhere, n)
	laid, _, ok := h.Laid(0, 1)
	require.True(t, ok)
	require.Equal(t, []byte{3}, laid)
	for _, member := range []int{1, 256} {
		_, _, ok = h.Laid(member, 1)
		require.False(t, ok, "another root")
	}
	_, _, ok = h.Laid(0, 1+Buffers)
	require.False(t, ok, "an older step")
	h.Lay(1, 2, make([]byte, MaxLaid+1))
	_, n, _ = h.Laid(1, 2)
	require.Equal(t, Elsewhere, n)

	h.Leave(0, false)
	require.False(t, h.Missed(0, 2), "it has left, and its process has not")
	require.True(t, h.Left(0))
	h.Depart(1)
	require.False(t, h.Left(1), "it still looks")
	require.True(t, h.Missed(1, 1))
	h.Leave(1, true)
	require.True(t, h.Left(1))
	h.Clear()
	_, _, ok = h.Laid(1, 2)
	require.False(t, ok, "of the members before")
	require.False(t, h.Left(0))
	require.False(t, h.Entered(0, 1))
}
