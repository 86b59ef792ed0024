// Package pmi is the Process Management Interface, version 1: its lines, its errors, and the server
// that a launcher runs for its ranks.
//
// A rank publishes short values, reads those of others, and enters barriers. A [Server] records for
// each rank whether it has joined, finalized or ended. A barrier of a Banyan server completes
// without the ranks that have failed, and names them ([MissingError]); before the first barrier has
// completed a rank that cannot come fails the start-up of all.
//
// Package join is the client. It does not speak PMI-2 or PMIx: Slurm's plugin for PMI-2 serves
// clients of PMI-1 too.
//
// Floor 2: it imports proc.
package pmi
