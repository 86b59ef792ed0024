package control

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// noticeJob is a job whose members forward revocations with the default settings. Only the simulator
// reports failures, to connected processes.
type noticeJob struct {
	n        int
	few      int                     // as Revocations.flatSize; 0: the default
	kills    map[proc.ID]fabric.Time // failures, which all processes know some µs later
	body     func(g *noticeMember)
	received [][]uint32 // contexts, by member
	frames   [][]int    // number of frames, by sender and receiver
}

// noticeMember is one member.
type noticeMember struct {
	*Revocations
	x    *noticeJob
	self proc.ID
}

func (x *noticeJob) run(t *testing.T) {
	t.Helper()
	x.received = make([][]uint32, x.n)
	x.frames = make([][]int, x.n)
	for id := range x.n {
		x.frames[id] = make([]int, x.n)
	}
	s, err := sim.New(sim.DefaultConfig(x.n))
	require.NoError(t, err)
	for id := range proc.ID(x.n) {
		require.NoError(t, s.Spawn(id, x.member))
	}
	for id, at := range x.kills {
		require.NoError(t, s.Kill(id, at))
	}
	require.NoError(t, s.Run())
}

func (x *noticeJob) member(p *sim.Proc) {
	e := progress.New(progress.Config{
		Self: p.ID(), Host: p.Host(), Others: []fabric.Provider{p.Provider()},
		Resolve: func(_ string, peer proc.ID) ([]byte, error) { return sim.Address(peer), nil },
	})
	g := &noticeMember{x: x, self: p.ID()}
	out := NewOutbox(e, nil)
	g.Revocations = StartRevocations(e, out, func(context uint32) (known, news bool) {
		if g.recordRecent(); g.records[context] != nil {
			return true, false
		}
		x.received[p.ID()] = append(x.received[p.ID()], context)
		g.Notify(context, all(x.n))
		return true, true
	}, func(uint32) {})
	if x.few > 0 {
		g.flatSize = x.few - 1
	}
	heard := g.Revocations.onFrame
	e.Handle(fabric.ClassRevoke, func(from proc.ID, imm uint64, payload []byte) {
		x.frames[from][p.ID()]++
		heard(from, imm, payload)
	})
	for id := range proc.ID(x.n) { // all learn of all ends
		if id != p.ID() {
			_, _ = e.Endpoint(id)
		}
	}
	e.Lock()
	if x.body != nil {
		x.body(g)
	}
	var over progress.Completion
	e.After(second, over.Finish)
	e.Wait(&over)
	out.Stop()
	e.Unlock()
	e.Depart()
	_ = e.Close()
}

// at calls fn at a time.
func (g *noticeMember) at(when fabric.Time, fn func()) { g.e.After(when-g.e.Host().Now(), fn) }

// sent is the total number of frames.
func (x *noticeJob) sent() (n int) {
	for _, to := range x.frames {
		for _, k := range to {
			n += k
		}
	}
	return n
}

// Without failures each member is notified by one frame, in small groups, whose notices name the
// notified members, and in large ones.
func TestEachIsNotifiedOnce(t *testing.T) {
	for _, n := range []int{2, 3, 8, 64, 65} {
		x := noticeJob{n: n, body: func(g *noticeMember) {
			if g.self == 1 {
				g.at(100*millisecond, func() { g.Notify(7, all(n)) })
			}
		}}
		x.run(t)
		for id := range n {
			if id != 1 {
				require.Equal(t, []uint32{7}, x.received[id], "%d of %d", id, n)
			}
		}
		require.Equal(t, n-1, x.sent(), "%d members", n)
		for id, to := range x.frames {
			require.Zero(t, to[id], "%d tells itself", id)
			require.LessOrEqual(t, slices.Max(to), 1, "%d members", n)
		}
	}
}

// The last two members notify each other wherever they are, whether the failures of the others are
// known at the revocation or later; in a flood and in a tree.
func TestGapsAreClosed(t *testing.T) {
	const n = 16
	const revoked = 100 * millisecond
	for _, few := range []int{0, 1} { // a flood, a tree
		for _, killed := range []fabric.Time{revoked - 50*millisecond, revoked + 1} {
			for by := range 2 {
				for other := range n {
					x := noticeJob{n: n, few: few, kills: map[proc.ID]fabric.Time{}}
					for id := range n {
						if id != by && id != other {
							x.kills[proc.ID(id)] = killed
						}
					}
					x.body = func(g *noticeMember) {
						if int(g.self) == by {
							g.at(revoked, func() { g.Notify(7, all(n)) })
						}
					}
					x.run(t)
					if other != by {
						require.Contains(t, x.received[other], uint32(7), "%d of %d, killed at %d, few %d",
							other, by, killed, few)
					}
					require.Zero(t, x.frames[by][by])
				}
			}
		}
	}
}

// A failure that one member knows is found for every failed rank: the tree below it is reached
// otherwise.
func TestOneFailureFloods(t *testing.T) {
	const n = 16
	for by := range proc.ID(2) {
		for victims := range proc.ID(n) {
			for _, killed := range []fabric.Time{50 * millisecond, 100*millisecond + 1} {
				if victims == by {
					continue
				}
				x := noticeJob{n: n, few: 1, kills: map[proc.ID]fabric.Time{victims: killed}}
				x.body = func(g *noticeMember) {
					if g.self == by {
						g.at(100*millisecond, func() { g.Notify(7, all(n)) })
					}
				}
				x.run(t)
				for id := range proc.ID(n) {
					if id != by && id != victims {
						require.Equal(t, []uint32{7}, x.received[id], "%d, told by %d, victims %d at %d", id, by,
							victims, killed)
					}
				}
			}
		}
	}
}

// A member that first receives a flood continues it, also if it would forward a tree; the same with
// an invalid root.
func TestFloodsContinue(t *testing.T) {
	for _, root := range []uint32{rootFlood, 16, 1 << 31} {
		x := noticeJob{n: 16, few: 1, body: func(g *noticeMember) {
			if g.self == 3 {
				g.at(100*millisecond, func() { g.Revocations.onFrame(0, 0, notice{7, root, 0}.append(nil)) })
			}
		}}
		x.run(t)
		for _, distance := range []int{1, 2, 4, 8, 12, 14, 15} {
			require.Equal(t, 1, x.frames[3][(3+distance)%16], "root %d, distance %d", root, distance)
		}
	}
}

// The first member's failure is like any other's: if one living member is notified of a revocation,
// all are.
func TestFailureOfTheFirst(t *testing.T) {
	for n := 2; n <= 17; n += 5 {
		for steps := range uint64(8) {
			x := &revocationJob{n: n, seed: 1 + steps, revokers: map[proc.ID]fabric.Time{0: 10_000},
				steps: map[proc.ID]uint64{0: steps}}
			require.NoError(t, x.run(), "%d members, %d steps", n, steps)
		}
	}
}

// A failure in a revoked communicator costs the frames that close the gap; one outside of it costs
// none, now and at a later revocation.
func TestFailuresAreCheap(t *testing.T) {
	const n, victims = 16, 5
	for name, c := range map[string]struct {
		members int
		few     int
		kill    fabric.Time
		least   int
		most    int
	}{
		"member":              {n, 0, 500 * millisecond, n, n*7 + 2*7},
		"outside":             {victims, 0, 500 * millisecond, victims - 1, victims - 1},
		"outside, tree":       {victims, 1, 500 * millisecond, victims - 1, victims - 1},
		"outside before":      {victims, 0, 50 * millisecond, victims - 1, victims - 1},
		"outside before, too": {victims, 1, 50 * millisecond, victims - 1, victims - 1},
	} {
		x := noticeJob{n: n, few: c.few, kills: map[proc.ID]fabric.Time{victims: c.kill}}
		x.body = func(g *noticeMember) {
			told := false
			g.onNotice = func(context uint32) (known, news bool) {
				if news = !told; news {
					told = true
					g.Notify(context, all(c.members))
				}
				return true, news
			}
			if g.self == 1 {
				g.at(100*millisecond, func() { g.Notify(7, all(c.members)) })
			}
		}
		x.run(t)
		require.GreaterOrEqual(t, x.sent(), c.least, name)
		require.LessOrEqual(t, x.sent(), c.most, name)
	}
}

// The notices to one process after a failure share as few frames as possible.
func TestNoticesShareFrames(t *testing.T) {
	const contexts = 2*maxNotices + 1
	x := noticeJob{n: 3, kills: map[proc.ID]fabric.Time{2: 200 * millisecond}}
	x.few = 1 // trees, in which one member notifies the others
	x.body = func(g *noticeMember) {
		if g.self == 0 {
			g.at(100*millisecond, func() {
				for c := range uint32(contexts) {
					g.Notify(c, all(3))
				}
			})
		}
	}
	x.run(t)
	require.Len(t, x.received[1], contexts)
	require.Equal(t, contexts+3, x.frames[0][1])
}

// A revocation during the handling of a notice for another communicator is this process's own; a
// repeated one is recorded once, and a received one is nothing more.
func TestOwnRevocationDuringANotice(t *testing.T) {
	x := noticeJob{n: 4, few: 1, body: func(g *noticeMember) {
		if g.self != 3 {
			return
		}
		g.onNotice = func(context uint32) (known, news bool) {
			g.Notify(context+1, all(4))
			g.Notify(context, all(4))
			return true, true
		}
		g.Revocations.onFrame(1, 0, notice{7, 1, 0}.append(nil))
		g.recordRecent()
		assert.EqualValues(t, 1, g.records[7].root)
		assert.EqualValues(t, 3, g.records[8].root)
		g.Notify(7, all(4))
		g.Notify(7, all(4))
		g.recordRecent()
		assert.EqualValues(t, 3, g.records[7].root)
		assert.Equal(t, []uint32{8, 7}, g.order)
	}}
	x.run(t)
}

// A departing process forwards nothing and handles nothing more.
func TestRevocationsStop(t *testing.T) {
	x := noticeJob{n: 4, kills: map[proc.ID]fabric.Time{2: 50 * millisecond}}
	x.body = func(g *noticeMember) {
		if g.self != 1 {
			return
		}
		g.Notify(6, all(4))
		g.at(10*millisecond, func() {
			x.frames[1] = make([]int, 4)
			g.Stop()
			g.Revocations.onFrame(0, 0, binary.LittleEndian.AppendUint64(nil, 9))
			g.Notify(7, all(4))
		})
	}
	x.run(t)
	require.Equal(t, make([]int, 4), x.frames[1])
	require.Empty(t, x.received[1])
}

// The only two members that have a communicator notify each other wherever they are, by a tree or a
// flood; each of the others gets at most one notice of either and answers that it is absent.
func TestAbsentMembersAreBypassed(t *testing.T) {
	const n = 16
	for _, few := range []int{0, 1} {
		for other := range proc.ID(n) {
			if other == 1 {
				continue
			}
			x := noticeJob{n: n, few: few}
			x.body = func(g *noticeMember) {
				hear := g.onNotice
				g.onNotice = func(context uint32) (known, news bool) {
					if g.self != other {
						return false, false
					}
					return hear(context)
				}
				if g.self == 1 {
					g.at(100*millisecond, func() { g.Notify(7, all(n)) })
				}
			}
			x.run(t)
			require.Equal(t, []uint32{7}, x.received[other], "%d, few %d", other, few)
			for id, to := range x.frames {
				switch id := proc.ID(id); id {
				case 1, other:
					require.LessOrEqual(t, slices.Max(to), 2, "a tree and a flood") // which have the same child
				default:
					require.LessOrEqual(t, to[1], x.frames[1][id])
					require.LessOrEqual(t, to[other], x.frames[other][id])
				}
			}
		}
	}
}

// Notices that arrive together are forwarded together, and so are the answers.
func TestNoticesStayTogether(t *testing.T) {
	for _, have := range []bool{true, false} {
		x := noticeJob{n: 4, few: 1, body: func(g *noticeMember) {
			if g.self != 1 {
				return
			}
			if !have {
				g.onNotice = func(uint32) (known, news bool) { return false, false }
			}
			g.at(100*millisecond, func() {
				var frame []byte
				for c := range uint32(maxNotices) {
					frame = notice{c, rootFlood, 0}.append(frame)
				}
				g.Revocations.onFrame(0, 0, frame)
			})
		}}
		x.run(t)
		if have {
			require.Equal(t, []int{1, 0, 1, 1}, x.frames[1])
			require.Len(t, x.received[3], maxNotices)
		} else {
			require.Equal(t, []int{1, 0, 0, 0}, x.frames[1])
		}
	}
}

// The graph also closes over an end that becomes known before the revocation that came with it has
// been recorded.
func TestAnEndRightAfterANotice(t *testing.T) {
	x := noticeJob{n: 4, few: 1 + notifyAllMax, body: func(g *noticeMember) {
		if g.self == 1 {
			g.at(100*millisecond, func() {
				g.Revocations.onFrame(0, 0, notice{7, 0, 1<<4 - 1}.append(nil))
				assert.Empty(t, g.records, "no wait is recorded")
				g.onEnd(&progress.Endpoint{Proc: 2}, proc.Cause{})
			})
		}
	}}
	x.run(t)
	require.Equal(t, []int{1, 0, 0, 1}, x.frames[1])
}
