package fault

import (
	"bytes"

	"github.com/banyan-hpc/banyan"
)

// operation is the measured operation on one communicator. The number of a call decides its root and
// its data.
type operation struct {
	do func(i int) error
	// fill sets the data of a call, right checks its result.
	fill  func(i int)
	right func(i int) bool
}

// operation returns that of a line.
func (r *collectiveRank) operation(at *lineComm) operation {
	switch r.o.Op {
	case Bcast:
		return r.bcast(at)
	case Reduce, Allreduce:
		return r.reduce(at)
	case Gather:
		return r.gather(at)
	case Scatter:
		return r.scatter(at)
	}
	return operation{
		do:   func(int) error { return at.c.Barrier() },
		fill: func(int) {}, right: func(int) bool { return true },
	}
}

// root is the root of the i-th call, and reports whether this rank is it.
func (r *collectiveRank) root(at *lineComm, i int) (rank int, mine bool) {
	rank = at.living[0]
	if r.o.Rotate {
		rank = at.living[i%len(at.living)]
	}
	return rank, rank == at.c.Rank()
}

// pattern is the byte that the i-th call moves for a survivor.
func pattern(i, survivor int) byte { return byte(1 + 31*i + 7*survivor) }

func (r *collectiveRank) bcast(at *lineComm) operation {
	buf := make([]byte, r.o.Size)
	return operation{
		do: func(i int) error {
			root, _ := r.root(at, i)
			return at.c.Bcast(buf, root)
		},
		fill: func(i int) {
			clear(buf)
			if _, mine := r.root(at, i); mine {
				fillWith(buf, pattern(i, 0))
			}
		},
		right: func(i int) bool { return isAll(buf, pattern(i, 0)) },
	}
}

// reduce adds twice each rank's number in the job, plus one.
func (r *collectiveRank) reduce(at *lineComm) operation {
	data := make([]int64, r.o.Size/word)
	mine := int64(2*r.w.Comm().Rank() + 1)
	var sum int64
	for rank := range r.o.Ranks {
		sum += int64(2*rank + 1)
	}
	for _, rank := range r.o.victims() {
		sum -= int64(2*rank + 1)
	}
	return operation{
		do: func(i int) error {
			if r.o.Op == Allreduce {
				return banyan.Allreduce(at.c, data, data, banyan.Sum)
			}
			root, _ := r.root(at, i)
			return banyan.Reduce(at.c, data, data, banyan.Sum, root)
		},
		fill: func(i int) {
			for k := range data {
				data[k] = mine + int64(k+i)
			}
		},
		right: func(i int) bool {
			if _, mine := r.root(at, i); r.o.Op == Reduce && !mine {
				return true
			}
			for k, v := range data {
				if v != sum+int64(len(at.living)*(k+i)) {
					return false
				}
			}
			return true
		},
	}
}

// deal writes the block of each survivor to all, at its rank.
func (r *collectiveRank) deal(at *lineComm, all []byte, i int) {
	clear(all)
	for number, rank := range at.living {
		fillWith(all[rank*r.o.Size:][:r.o.Size], pattern(i, number))
	}
}

func (r *collectiveRank) gather(at *lineComm) operation {
	mine, all := make([]byte, r.o.Size), make([]byte, r.o.Size*at.c.Size())
	want := make([]byte, len(all))
	me := r.living.Rank()
	return operation{
		do: func(i int) error {
			root, here := r.root(at, i)
			return at.c.Gather(mine, atRoot(here, all), root)
		},
		fill: func(i int) { fillWith(mine, pattern(i, me)); clear(all) },
		right: func(i int) bool {
			if _, root := r.root(at, i); !root {
				return true
			}
			r.deal(at, want, i)
			return bytes.Equal(want, all)
		},
	}
}

func (r *collectiveRank) scatter(at *lineComm) operation {
	mine, all := make([]byte, r.o.Size), make([]byte, r.o.Size*at.c.Size())
	me := r.living.Rank()
	return operation{
		do: func(i int) error {
			root, here := r.root(at, i)
			return at.c.Scatter(atRoot(here, all), mine, root)
		},
		fill: func(i int) {
			clear(mine)
			clear(all)
			if _, root := r.root(at, i); root {
				r.deal(at, all, i)
			}
		},
		right: func(i int) bool { return isAll(mine, pattern(i, me)) },
	}
}

// atRoot returns the buffer that the root alone has.
func atRoot(root bool, all []byte) []byte {
	if root {
		return all
	}
	return nil
}

func fillWith(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

func isAll(b []byte, v byte) bool {
	for _, got := range b {
		if got != v {
			return false
		}
	}
	return true
}
