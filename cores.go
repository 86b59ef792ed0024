package banyan

import "math/bits"

// coreSet is a set of cores as it is published: a bit each, byte by byte.
type coreSet []byte

func newCoreSet(cpus []int) coreSet {
	var s coreSet
	for _, c := range cpus {
		s = s.union(append(make(coreSet, c/8), 1<<(c%8)))
	}
	return s
}

func (s coreSet) union(t coreSet) coreSet {
	if len(t) > len(s) {
		s, t = append(coreSet(nil), t...), s
	}
	for i := range t {
		s[i] |= t[i]
	}
	return s
}

func (s coreSet) count() int {
	n := 0
	for _, b := range s {
		n += bits.OnesCount8(b)
	}
	return n
}
