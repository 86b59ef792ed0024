// Package explore tries everything that may happen in a small model: all orders of the steps of its
// members, deaths among them. Tests of shared memory and protocols use it, each with a model of
// its own:
//
//	states, err := explore.All(newWorld(task), 1<<30)
//
// Floor 0. It imports nothing of Banyan's.
package explore
