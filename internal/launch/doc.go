// Package launch starts the ranks of a job on this machine and on others, serves PMI-1 to them,
// binds them to cores, forwards their output and signals, and reports how each ended ([Run]). It
// never ends the others because one died, unless asked to ([Abort]).
//
//	join        the side of a rank: all that an application links
//	rendezvous  ranks that find each other without a launcher
//	pmi         the protocol between ranks and launcher, and its server
//	spawn       processes of one machine
//	hosts       other machines, through a remote shell
//
// Each of the two destinations of output belongs to one goroutine, and only this goroutine waits
// for a slow reader: ranks that print are held up then, but signals and the ends of ranks are
// handled. A failed destination is reported once, on the other one, and is in the [Result]; ranks
// do not notice.
//
// It starts no replacements for failed ranks, does not speak PMI-2 or PMIx, and is no failure
// detector: ranks detect a failed rank themselves, with or without a launcher.
//
// Floor 2: it imports the packages below it and proc.
package launch
