// Package choose has the table by which collectives take their algorithms: operation, number of ranks, ranks per node,
// cores and bytes in, algorithm out.
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
// Ranks are those of the communicator that are left, and per-node is the most of them on one node; all stands for "all ranks are on
// one node", part for "they are on several". Cores are shared where all ranks of the job are on one node that has fewer
// cores than ranks, else own. A range is *, N, N.., ..N or N..M, with both ends in it; bytes may end in k, m or g (of
// 1024). The bytes of a gather, scatter, allgather(v) and reduce_scatter_block are those of one rank's block, of which
// the last and an alltoall count all that a rank gives.
//
// The first rule that fits counts, and the rules of [Default] stand behind all others. What a place does not have is passed over:
// memory of one node on several nodes, levels on one.
//
// All members of a communicator must choose alike. So a rule depends on nothing that differs among them, all ranks of a job have
// the same table, which its [Table.Sum] shows at the start, and lengths are the one thing about which ranks may be wrong.
//
// # Lengths
//
// A [Menu] is a table at one place: the algorithms of messages by length, in classes. The algorithm of the first class also
// carries the length headers of the others: ranks whose lengths belong to different classes would wait for
// each other in vain without them. So the first one must be able to carry them, and operations without headers have one class.
// Memory and levels take the shortest lengths, from 0 on; a longer one shows there too.
//
// Pure: no I/O, no clock. A [Table] is for all goroutines.
//
// Floor 1.
package choose
