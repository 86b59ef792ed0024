package predict

import "github.com/banyan-hpc/banyan/coll/tree"

// Baseline returns the job with which a fault-aware one is compared: the unaware design on a communicator
// of the survivors, each in its place (Hursey & Graham §4: "to place processes in the same physical
// location").
func (j Job) Baseline() Job {
	if j.Ranks == 0 {
		j.Ranks = j.Machine.Procs
	}
	a := tree.Except(j.Ranks, j.Dead...)
	place := j
	b := j
	b.Design, b.Dead, b.Ranks, b.Root = tree.Unaware, nil, a.Count(), max(a.Number(j.Root), 0)
	b.Place = func(rank int) int { return place.place(a.Rank(rank)) }
	return b
}
