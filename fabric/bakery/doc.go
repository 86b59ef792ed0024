// Package bakery is a lock in shared memory for the members of a group, shared or exclusive, whose holders
// and waiters may die at any moment.
//
// It is Lamport's bakery (A New Solution of Dijkstra's Concurrent Programming Problem, 1974), with a kind
// in each ticket. Each member has a word of its own, which nobody else writes:
//
//	l := bakery.Open(words, members)
//	l.Request(me, bakery.Exclusive) // says that it chooses, and takes a number above all others
//	for at, ok := l.Granted(me, 0); !ok; at, ok = l.Granted(me, at) {
//		// one with an earlier ticket, or that chooses one, keeps it from the lock
//	}
//	…
//	l.Release(me)
//
// So an uncontended lock is two stores and two looks at words that lie side by side, eight to a cache line. Members
// get it in the order of their numbers.
//
// # Deaths
//
// A word whose writer has died stays as it is, and nothing must be repaired. One process, the keeper, learns of every
// death and marks the member ([Lock.Exclude]); everybody ignores the words of marked members. Precondition: a
// marked member does not use what the lock guards any more.
//
// # Sleep
//
// A waiting member that wants to sleep says so in its word ([Lock.Sleep]) and looks once more. A member that may have let
// another one go on, by its release or by its number, asks for sleepers that may ([Lock.Next]) and has them woken;
// so does the keeper after a mark. The member that is the last to let a sleeper go on sees it: each stores its own word
// before it looks at those of others.
//
// # Trust
//
// Other processes write the words. Whatever they hold, no access is outside of them; a wrong word only
// makes the lock wrong.
//
// Floor 0.5. It knows nothing of processes; members are numbers.
package bakery
