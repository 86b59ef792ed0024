// Package choose contains the table that determines the algorithms of collectives: operation, number of ranks, ranks
// per node, cores and bytes in, algorithm out.
//
//	t, err := choose.Parse("table", text)
//	m := t.Menu(choose.Bcast, choose.Place{Ranks: 16, OneNode: true})
//	by := m.At(bytes)
//
// # Tables
//
// A line is empty, a comment (#), or a rule of six fields:
//
//	# operation  ranks  per-node  cores   bytes      algorithm
//	bcast        ..64   all       shared  *          straight
//	allgather    8..16  2..       *       4k..64k    ring
//
// Ranks is the number of remaining ranks of the communicator, and per-node the largest number of them on one node;
// all stands for "all ranks are on one node", part for "they are on several". Cores are shared if all ranks of the
// job are on one node that has fewer cores than ranks, else own. A range is *, N, N.., ..N or N..M, ends included;
// bytes may end in k, m or g (of 1024). For gather, scatter and allgather(v) bytes is the length of
// one rank's block; for reduce_scatter_block and alltoall it is that of a rank's whole send buffer. The rules
// of reduce_scatter_block are those of reduce_scatter, too.
//
// The first matching rule counts, and the rules of [Default] follow all others. Algorithms that a place lacks are
// skipped: memory of one node on several nodes, levels on one.
//
// All members of a communicator must choose alike. So a rule depends on nothing that differs among them, all ranks
// of a job have the same table, whose [Table.Sum] is compared at the start, and only lengths may differ by mistake.
//
// # Lengths
//
// A [Menu] is a table at one place: the algorithms of messages by length, in classes. The algorithm of the first
// class also carries the length headers of the others; without them ranks whose lengths belong to different classes
// would wait for each other in vain. So the first one must be able to carry them, and operations without headers
// have one class. Data of a reduction go up the tree by which headers come: it has one tree for all lengths, that of
// length 0. A scan goes without headers: its chain has a message wherever doubling has one. Memory and levels serve
// the shortest lengths, from 0 on; the memory also shows a longer length.
//
// Pure: no I/O, no clock. Any goroutine may use a [Table].
//
// Floor 1.
package choose
