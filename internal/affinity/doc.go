// Package affinity answers on which CPUs this process may run, binds threads to
// them, and reads the CPU limit of the control group.
//
// The number of cores that are worth spinning on is not the number of the
// machine: an affinity mask and a control group's quota both make it smaller
// ([Usable]). CPUs that share a physical core are not worth two ([Spread]).
//
// Every function may be called concurrently. [Pin] acts on the calling thread
// alone: the goroutine must be locked to it.
//
// It does not know NUMA nodes, does not watch for changes, and moves no memory.
//
// Floor 0. It imports nothing of Banyan's.
package affinity
