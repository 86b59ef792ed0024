package p2p

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// matches is the matching rule.
func matches(wantSrc proc.ID, wantIMM uint64, src proc.ID, imm uint64) bool {
	return (wantSrc == proc.None || wantSrc == src) && wantIMM>>32 == imm>>32 &&
		(uint32(wantIMM) == anyTag || wantIMM == imm)
}

func randomKey(r *rand.Rand, wild bool) (proc.ID, uint64) {
	src, imm := proc.ID(r.IntN(5)), uint64(1+r.IntN(2))<<32|uint64(r.IntN(6))
	if wild && r.IntN(5) == 0 {
		src = proc.None
	}
	if wild && r.IntN(5) == 0 {
		imm |= anyTag
	}
	return src, imm
}

// listSeeds is the number of random histories compared with a list: few under the race detector,
// since they use one goroutine.
func listSeeds() int {
	if testing.Short() {
		return 2
	}
	return 20
}

// Posted receives behave as one list in order of posting, searched from the front.
func TestPostedAgainstList(t *testing.T) {
	for seed := range uint64(listSeeds()) {
		r := rand.New(rand.NewPCG(seed, 1))
		q := newPosted(4)
		var list []*Request
		for range 20_000 {
			switch k := r.IntN(10); {
			case k < 5 && len(list) < 3000:
				req := new(Request)
				req.src, req.imm = randomKey(r, true)
				q.add(req)
				list = append(list, req)
			case k < 9:
				src, imm := randomKey(r, false)
				i := slices.IndexFunc(list, func(x *Request) bool { return matches(x.src, x.imm, src, imm) })
				got := q.match(src, imm)
				if i < 0 {
					require.Nil(t, got, "seed %d", seed)
					continue
				}
				require.Same(t, list[i], got, "seed %d", seed)
				list = slices.Delete(list, i, i+1)
			case len(list) > 0:
				i := r.IntN(len(list))
				q.remove(list[i])
				list = slices.Delete(list, i, i+1)
			}
			require.Equal(t, len(list), q.n)
		}
		n := 0
		q.all(func(x *Request) { n++; q.remove(x) })
		require.Equal(t, len(list), n)
		require.Zero(t, q.n)
		require.Equal(t, [4]int{}, q.wild)
		require.Equal(t, make([]uint64, len(q.full)), q.full)
	}
}

// Unexpected messages behave as one list in order of arrival, searched from the front.
func TestUnexpectedAgainstList(t *testing.T) {
	for seed := range uint64(listSeeds()) {
		r := rand.New(rand.NewPCG(seed, 2))
		u := unexpectedQueue{index: [4][]msgBin{make([]msgBin, 4)}}
		var list []*message
		for range 20_000 {
			if r.IntN(2) == 0 && len(list) < 3000 {
				m := u.newMessage()
				m.from, m.imm = randomKey(r, false)
				u.add(m)
				list = append(list, m)
				continue
			}
			src, imm := randomKey(r, true)
			i := slices.IndexFunc(list, func(m *message) bool { return matches(src, imm, m.from, m.imm) })
			got := u.match(src, imm)
			if i < 0 {
				require.Nil(t, got, "seed %d", seed)
				continue
			}
			require.Same(t, list[i], got, "seed %d", seed)
			u.release(got)
			list = slices.Delete(list, i, i+1)
			require.Equal(t, len(list), u.n)
		}
	}
}

func TestBuffersComeBack(t *testing.T) {
	var u unexpectedQueue
	for _, n := range []int{0, 1, 64, 65, 4096, 5000} {
		m := u.newMessage()
		m.data = append(u.buffer(n), make([]byte, n)...)
		first := &m.data[:1][0]
		u.release(m)
		require.Same(t, first, &u.buffer(n)[:1][0], "a buffer of %d bytes was not used again", n)
	}
}

func benchmarkMatch(b *testing.B, others int) {
	q := newPosted(firstBins)
	for i := range others {
		q.add(&Request{src: 1, imm: 1<<32 | uint64(i+10)})
	}
	req := &Request{src: 1, imm: 1<<32 | 5}
	for b.Loop() {
		q.add(req)
		if q.match(1, 1<<32|5) != req {
			b.Fatal("wrong match")
		}
	}
}

func BenchmarkMatchAmong10(b *testing.B)    { benchmarkMatch(b, 10) }
func BenchmarkMatchAmong10000(b *testing.B) { benchmarkMatch(b, 10_000) }
