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
// Floor 0. It imports nothing of Banyan's.
package futex
