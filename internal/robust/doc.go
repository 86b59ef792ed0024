// Package robust lets the kernel report to processes of a machine that one of them has
// died, within tens of microseconds and without privileges.
//
// A robust futex list is meant for locks: when a thread ends, the kernel walks its
// list, marks each word that holds the thread's id, and wakes a waiter there. It
// does so before it takes the process's memory apart. Everything tied to
// descriptors waits for that: about 20 µs per resident megabyte. Here the words
// are no locks. A process holds words in memory that it shares:
//
//	h, err := robust.Hold(words) // a thread of its own, on whose list they are
//	defer h.Release()            // an orderly end: not taken for a death
//
// and each of the others watches one:
//
//	seen, err := robust.See(tid) // while the process is known to be the right one
//	w := robust.NewWatch(died)
//	w.Add(key, &words[i], seen)  // died(key) is called, from another goroutine
//
// The kernel wakes one waiter for each word, so observers have words of their own as
// long as there are some; those that share one wake each other in turn. A waiter that has
// been killed or stopped at that moment wakes no other: this is the fast way to
// learn of a death, and a certain one, a pidfd, must stand behind it.
//
// # Trust
//
// The list is in the holder's private memory; only the words are shared, so writes
// of others cannot mislead the kernel. A mark in a word is only a reason
// to ask the kernel, which forgets a thread's list when it has walked it
// (get_robust_list). So a word with a wrong value does no harm: it is
// not watched any longer. That the thread is gone says that the process is
// ending, or calls exec, or has lost that thread: the caller that reports a death makes sure
// of it.
//
// # Why unsafe
//
// The kernel takes addresses of the list, and of words in shared mappings. They are
// passed as numbers; the list lies in the heap, which does not move, and is referenced until
// the kernel has been told to forget it.
//
// Floor 0. Of Banyan's packages it imports only warm.
package robust
