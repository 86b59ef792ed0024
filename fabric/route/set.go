package route

import (
	"fmt"
	"strings"
)

// Fabric is a transport from one process to another.
type Fabric uint8

// The fabrics, the fastest first: shared memory, RDMA, Unix-domain sockets, TCP.
const (
	Shm Fabric = iota
	Verbs
	Unix
	TCP
	numFabrics
)

var names = [numFabrics]string{Shm: "shm", Verbs: "verbs", Unix: "unix", TCP: "tcp"}

// String returns the name for users.
func (f Fabric) String() string {
	if f < numFabrics {
		return names[f]
	}
	return fmt.Sprintf("fabric %d", uint8(f))
}

// Set is a set of fabrics.
type Set uint8

// All is every fabric, Sockets those that need no shared memory: RDMA begins over sockets.
const (
	All     = Set(1<<numFabrics - 1)
	Sockets = All &^ (1 << Shm)
)

// Of makes a set.
func Of(fabrics ...Fabric) Set {
	var s Set
	for _, f := range fabrics {
		s |= 1 << f
	}
	return s
}

// Has reports whether f is in the set.
func (s Set) Has(f Fabric) bool { return s&(1<<f) != 0 }

// String lists the names as [ParseSet] reads them.
func (s Set) String() string {
	var in []string
	for f := range numFabrics {
		if s.Has(f) {
			in = append(in, names[f])
		}
	}
	return strings.Join(in, ",")
}

// ParseSet reads names separated by commas.
func ParseSet(list string) (Set, error) {
	var s Set
	for word := range strings.SplitSeq(list, ",") {
		f, ok := find(strings.ToLower(strings.TrimSpace(word)))
		if !ok {
			return 0, fmt.Errorf("fabric %q is not known: %s are, with commas between them", word, All)
		}
		s |= 1 << f
	}
	return s, nil
}

func find(name string) (Fabric, bool) {
	for f, n := range names {
		if n == name {
			return Fabric(f), true
		}
	}
	return 0, false
}
