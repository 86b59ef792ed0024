package collective

import (
	"bytes"

	"github.com/banyan-hpc/banyan"
)

// operation is what is measured, on one communicator. The number of an operation decides its root and its data.
type operation struct {
	do func(i int) error
	// fill puts in what an operation is to move, right looks at what it has moved.
	fill  func(i int)
	right func(i int) bool
}

// operation makes that of a line.
func (s *side) operation(at *contestant) operation {
	switch s.o.Op {
	case Bcast:
		return s.bcast(at)
	case Reduce, Allreduce:
		return s.fold(at)
	case Gather:
		return s.gather(at)
	case Scatter:
		return s.scatter(at)
	}
	return operation{
		do:   func(int) error { return at.c.Barrier() },
		fill: func(int) {}, right: func(int) bool { return true },
	}
}

// root is the rank of the i-th operation's root, and whether this is it.
func (s *side) root(at *contestant, i int) (rank int, mine bool) {
	rank = at.living[0]
	if s.o.Rotate {
		rank = at.living[i%len(at.living)]
	}
	return rank, rank == at.c.Rank()
}

// mark is what the i-th operation moves of a process that has lived from the beginning.
func mark(i, process int) byte { return byte(1 + 31*i + 7*process) }

func (s *side) bcast(at *contestant) operation {
	buf := make([]byte, s.o.Size)
	return operation{
		do: func(i int) error {
			root, _ := s.root(at, i)
			return at.c.Bcast(buf, root)
		},
		fill: func(i int) {
			what := byte(0)
			if _, mine := s.root(at, i); mine {
				what = mark(i, 0)
			}
			paint(buf, what)
		},
		right: func(i int) bool { return painted(buf, mark(i, 0)) },
	}
}

// fold adds a number of each rank: twice its rank in the job, and one.
func (s *side) fold(at *contestant) operation {
	data := make([]int64, s.o.Size/word)
	mine := int64(2*s.w.Comm().Rank() + 1)
	var sum int64
	dead := s.o.Kill.Victims(s.o.Ranks, s.o.Failures)
	for rank := range s.o.Ranks {
		sum += int64(2*rank + 1)
	}
	for _, rank := range dead {
		sum -= int64(2*rank + 1)
	}
	return operation{
		do: func(i int) error {
			if s.o.Op == Allreduce {
				return banyan.Allreduce(at.c, data, banyan.Sum)
			}
			root, _ := s.root(at, i)
			return banyan.Reduce(at.c, data, banyan.Sum, root)
		},
		fill: func(i int) {
			for k := range data {
				data[k] = mine + int64(k+i)
			}
		},
		right: func(i int) bool {
			if _, mine := s.root(at, i); s.o.Op == Reduce && !mine {
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

func (s *side) gather(at *contestant) operation {
	mine, all := make([]byte, s.o.Size), make([]byte, s.o.Size*at.c.Size())
	me := s.living.Rank()
	return operation{
		do: func(i int) error {
			root, here := s.root(at, i)
			return at.c.GatherBytes(mine, onlyThere(here, all), root)
		},
		fill: func(i int) { paint(mine, mark(i, me)); clear(all) },
		right: func(i int) bool {
			if _, root := s.root(at, i); !root {
				return true
			}
			return s.blocks(at, all, i)
		},
	}
}

// blocks reports whether all has the block of each who lives, and nothing of others.
func (s *side) blocks(at *contestant, all []byte, i int) bool {
	want := make([]byte, len(all))
	for number, rank := range at.living {
		paint(want[rank*s.o.Size:][:s.o.Size], mark(i, number))
	}
	return bytes.Equal(want, all)
}

func (s *side) scatter(at *contestant) operation {
	mine, all := make([]byte, s.o.Size), make([]byte, s.o.Size*at.c.Size())
	me := s.living.Rank()
	return operation{
		do: func(i int) error {
			root, here := s.root(at, i)
			return at.c.ScatterBytes(onlyThere(here, all), mine, root)
		},
		fill: func(i int) {
			clear(mine)
			clear(all)
			if _, root := s.root(at, i); root {
				for number, rank := range at.living {
					paint(all[rank*s.o.Size:][:s.o.Size], mark(i, number))
				}
			}
		},
		right: func(i int) bool { return painted(mine, mark(i, me)) },
	}
}

// onlyThere is what the root alone has.
func onlyThere(root bool, all []byte) []byte {
	if root {
		return all
	}
	return nil
}

func paint(b []byte, with byte) {
	for i := range b {
		b[i] = with
	}
}

// painted reports whether all of b is that.
func painted(b []byte, with byte) bool {
	for _, v := range b {
		if v != with {
			return false
		}
	}
	return true
}
