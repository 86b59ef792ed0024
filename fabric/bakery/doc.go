// Package bakery is a lock in shared memory for the members of a group, shared or exclusive, whose holders and
// waiters may die at any moment.
//
// It is Lamport's bakery (A New Solution of Dijkstra's Concurrent Programming Problem, 1974), with a kind in each
// ticket. Each member has a word of its own, which no other member writes:
//
//	l := bakery.Open(words, members)
//	ok := l.Request(me, bakery.Exclusive) // announces that it chooses, and takes a number above all others
//	for at := 0; !ok; {
//		at, ok = l.Granted(me, at) // member at has an earlier ticket, or chooses one, and is before this one
//	}
//	…
//	l.Release(me)
//
// A member that chooses and sees no member that holds or requests the lock takes no number: it holds the lock, and all
// later members wait for its choice. So an uncontended lock is one store and one scan of words that are contiguous,
// eight to a cache line. Members get it in the order of their numbers.
//
// # Deaths
//
// The word of a dead writer stays unchanged, and nothing must be repaired. One process, the keeper, is notified of
// every death and marks the member ([Lock.Exclude]); all members ignore the words of marked members. Precondition: a
// marked member no longer accesses the data that the lock protects.
//
// # Sleep
//
// A waiting member that wants to sleep announces it in its word ([Lock.Sleep]) and checks once more. After its
// release or its choice of a number, a member looks for sleepers that may have the lock now ([Lock.Next]) and wakes
// them; so does the keeper after a mark. The last member to unblock a sleeper sees it: each member stores its own
// word before it reads those of others.
//
// # Trust
//
// Other processes write the words. No content leads to an access outside of them; a wrong word only makes the
// lock wrong.
//
// Floor 0.5. It has no notion of processes; members are numbers.
package bakery
