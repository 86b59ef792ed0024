// Package nodemem is memory that a launcher makes for the ranks of one machine, so that each of them
// maps it once and reaches all others in it. It is a memfd, which ranks inherit:
//
//	f, err := nodemem.Make(local, size)                   // the launcher
//	env = append(env, nodemem.Variable(fd, index))        // of each rank, by its place among them
//	place, err := nodemem.Find(size)                      // the rank
//
// Each rank has two parts of it for the beginning of its segment; see package fabric/shm. First come the
// heads of all ranks, then the pages of each. The file is sparse and sealed: its size is fixed.
//
// Floor 0. It imports nothing of Banyan's.
package nodemem
