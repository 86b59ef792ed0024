// Package futex holds the kernel's side of sleeping: futex wait and wake on a word that processes
// may share, the [Bell] built on them, and membarrier.
//
// A Bell must not lose a ring. The ringer publishes work and then checks whether the owner sleeps;
// the owner announces that it sleeps and then looks for work. Both need their store ordered before
// their load. The ringer is on every message's path, so the sleeper pays for both: after announcing
// it calls membarrier(GLOBAL_EXPEDITED), which makes every running thread of every registered
// process execute a full barrier. A process that could not register ([Registered] is false), or
// whose peer cannot call it, must fence itself.
//
// A ringer disarms the bell before it wakes the owner, so that others do not wake it as well. If it is killed in
// between, the rings of others come to nothing. So a process's own rings ([Pull]), as at the death of a peer, do not
// depend on those of others, and a sleep looks once a second whether the bell is still armed. A process that rings rarely,
// and perhaps one that the owner does not know yet, leaves it armed (Summon).
//
// Floor 0. It imports nothing of Banyan's.
package futex
