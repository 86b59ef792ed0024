package osu

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
)

// The exchanges of the measuring ranks between the timed loops. The library's collectives are of
// all ranks of a communicator, here some may be left out; these are not timed and need not be fast.

// sync returns when all ranks that measure have called it: in round k each notifies the rank 2^k
// ahead (dissemination). Between two ranks that is one exchange.
func (p *Pair) sync() error {
	n, rank := p.ranks, p.c.Rank()
	var got [1]byte
	for d := 1; d < n; d *= 2 {
		to, from := (rank+d)%n, (rank-d+n)%n
		if _, err := p.c.Sendrecv(p.word[:], to, tagSync, got[:], from, tagSync); err != nil {
			return fmt.Errorf("osu: synchronize with ranks %d and %d: %w", to, from, err)
		}
	}
	return nil
}

// gather returns the values of all ranks that measure on rank 0, and nil on the others.
func (p *Pair) gather(v int64) ([]int64, error) {
	var word [8]byte
	if p.c.Rank() != 0 {
		binary.LittleEndian.PutUint64(word[:], uint64(v))
		return nil, p.c.Send(word[:], 0, tagWord)
	}
	all := []int64{v}
	for rank := 1; rank < p.ranks; rank++ {
		if _, err := p.c.Recv(word[:], rank, tagWord); err != nil {
			return nil, fmt.Errorf("osu: hear from rank %d: %w", rank, err)
		}
		all = append(all, int64(binary.LittleEndian.Uint64(word[:])))
	}
	return all, nil
}

// share returns rank 0's v on all ranks that measure.
func (p *Pair) share(v int64) (int64, error) {
	var word [8]byte
	if p.c.Rank() != 0 {
		_, err := p.c.Recv(word[:], 0, tagWord)
		return int64(binary.LittleEndian.Uint64(word[:])), err
	}
	binary.LittleEndian.PutUint64(word[:], uint64(v))
	for rank := 1; rank < p.ranks; rank++ {
		if err := p.c.Send(word[:], rank, tagWord); err != nil {
			return 0, fmt.Errorf("osu: tell rank %d: %w", rank, err)
		}
	}
	return v, nil
}

// sum returns the sum of all ranks' values on all of them.
func (p *Pair) sum(v int64) (int64, error) {
	all, err := p.gather(v)
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, x := range all {
		total += x
	}
	return p.share(total)
}

// combine computes one time from those of the pairs, on rank 0: the longest or the mean. The first
// ranks of the pairs have a time, the others 0.
func (p *Pair) combine(mine time.Duration, longest bool) (time.Duration, error) {
	if p.pairs == 1 || p.fan != nil { // rank 0 alone has a time
		return mine, nil
	}
	all, err := p.gather(int64(mine))
	if err != nil || all == nil {
		return 0, err
	}
	if longest {
		return time.Duration(slices.Max(all)), nil
	}
	total := time.Duration(0)
	for _, t := range all[:p.pairs] {
		total += time.Duration(t)
	}
	return total / time.Duration(p.pairs), nil
}

// collect appends the durations of the other pairs to rank 0's.
func (p *Pair) collect(mine []time.Duration) ([]time.Duration, error) {
	if !p.first {
		return nil, nil
	}
	if p.fan != nil { // rank 0 alone has times
		return mine, nil
	}
	return collect(p.c, p.pairs, mine)
}

// collect appends the durations of the first ranks of c to rank 0's. All of them have as many.
func collect(c *banyan.Comm, ranks int, mine []time.Duration) ([]time.Duration, error) {
	if c.Rank() != 0 {
		b := make([]byte, 0, 8*len(mine))
		for _, d := range mine {
			b = binary.LittleEndian.AppendUint64(b, uint64(d))
		}
		return nil, c.Send(b, 0, tagWord)
	}
	all := mine
	b := make([]byte, 8*len(mine))
	for other := 1; other < ranks; other++ {
		if _, err := c.Recv(b, other, tagWord); err != nil {
			return nil, fmt.Errorf("osu: collect from rank %d: %w", other, err)
		}
		for i := range len(mine) {
			all = append(all, time.Duration(binary.LittleEndian.Uint64(b[8*i:])))
		}
	}
	return all, nil
}
