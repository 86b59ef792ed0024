// Package report writes the results of a benchmark: as a table in the format of the OSU
// micro-benchmarks ([OSUTable]) and as a JSON file with everything about the machine that may explain
// a number ([File], [Environment]).
//
// # The table
//
// Scripts that read OSU's output must be able to read this one. The lines are those of OSU 5.9: a
// title, "# Size          Latency (us)", and rows of the size in a field of 10 and numbers in fields
// of 18; lines with the numbers of pairs and of threads if OSU has them. Percentiles, which OSU has
// since 7.1 as option -z, are further columns and only printed on request. With several of the options
// -c, -f and -z a line is longer than 80 columns, as OSU's is: it is not broken. The tests run the
// expressions of ReFrame's, Ramble's, PerfKitBenchmarker's and hpcbench's parsers over the tables.
//
// # The file
//
// One JSON object, schema "banyan-bench", version 1; readers ignore unknown members, and a
// change that breaks a reader raises the version:
//
//	schema       "banyan-bench"
//	version      1
//	kind         the kind of Results: "osu", "match", "netpipe", "fault-detect", "compare", "tour", "tune"
//	command      the command line
//	started      RFC 3339, the start of the measurement
//	seconds      its duration
//	environment  see [Environment]
//	results      the value that the benchmark produced; its type documents it
//
// # Limits
//
// It measures nothing, draws nothing and does not read its own files.
//
// Floor 8: it stands beside the harnesses and imports none of them; the command passes their results
// to it. All functions may be called concurrently; an [OSUTable] is for one goroutine.
package report
