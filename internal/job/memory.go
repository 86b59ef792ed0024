package job

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/heap"
	"github.com/banyan-hpc/banyan/fabric/shm"
)

// simulatedMemory is the limit of a simulated rank, in bytes: the same on every machine.
const simulatedMemory = 1 << 40

// newHeap makes the heap of allocated memory.
func (j *Job) newHeap(blocks fabric.Blocks, others []fabric.Provider, c *config) *heap.Heap {
	h := heap.New(blocks, func() int64 {
		if c.memory > 0 {
			return c.memory
		}
		return shm.Spare() / 2 / int64(j.neighbours())
	})
	for _, p := range others {
		if r, ok := p.(fabric.Registrar); ok {
			h.RegisterWith(r)
		}
	}
	return h
}

// neighbours is the number of ranks on this one's node, itself included.
func (j *Job) neighbours() (n int) {
	mine := j.Node()
	for rank := range j.Size() {
		if j.NodeOf(rank) == mine {
			n++
		}
	}
	return n
}
