package main

import (
	"fmt"
	"os"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/internal/launch"
)

// inJob joins the job, measures and leaves.
func inJob(aware bool, measure func(*banyan.World) error, opts ...banyan.Option) error {
	w, err := banyan.Init(append(opts, banyan.WithAware(aware))...)
	if err != nil {
		return err
	}
	if err := measure(w); err != nil {
		return err // without finalizing: the other rank learns that this one failed
	}
	return w.Finalize()
}

// rankVariables are the variables by which launchers number a process. The number of ranks alone,
// which may come from an outer job, makes no process a rank.
var rankVariables = []string{"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "RANK"}

// alone refuses to simulate as a rank of a job: each rank would simulate all of
// them and write the same files.
func alone(command string) error {
	for _, name := range rankVariables {
		if rank, ok := os.LookupEnv(name); ok {
			return usagef("%s: --fabric sim has all ranks in one process, and %s=%s says that this is one of several: start it alone, or unset %s", command, name, rank, name)
		}
	}
	return nil
}

// startSelf starts this binary as n ranks with the arguments of the call and more variables, bound
// to cores where there are enough.
func startSelf(n int, to *call, export ...string) error {
	self, err := selfPath()
	if err != nil {
		return err
	}
	spec := launch.Spec{
		N: n, Argv: append([]string{self}, to.args...), Bind: launch.BindCore,
		Export:    export,
		OnFailure: launch.Abort, Verdicts: []int{exitMissed}, Stdout: to.out, Stderr: to.err,
	}
	cpus, err := affinity.Allowed()
	if err != nil {
		return err
	}
	if len(cpus) < n {
		spec.Bind = launch.BindNone
		fmt.Fprintf(to.err, "ftbench: %d ranks on %d CPU: they take turns, so the times are not those of the library\n", n, len(cpus))
	}
	return start(spec)
}
