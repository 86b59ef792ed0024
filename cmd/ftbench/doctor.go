package main

import (
	"cmp"
	"os"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/doctor"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

type doctorCmd struct {
	Fabric   fabricList `placeholder:"LIST" help:"Look at these fabrics only: shm, unix, tcp, with commas. Default: all (BANYAN_FABRIC)."`
	Networks string     `placeholder:"LIST" help:"Judge the interfaces as with these networks. Default: all that are up (BANYAN_NETWORKS)."`

	Trial bool `hidden:"" help:"One of two ranks that try whether they reach each other."`
}

// Help has the examples.
func (doctorCmd) Help() string {
	return `Alone it looks at this machine: what each fabric needs, whether two ranks really
reach each other by it, which addresses are used, limits, processors, settings. Each
line begins with ok, warning or missing; what is not ok has its cure. The exit code is
1 if a line begins with missing, else 0.

As a job it prints by which fabric each rank reaches each other one, and for each that
is not shared memory why, with the addresses and the interface of each pair of sockets
and how many connections were admitted, healed and refused; and how ranks learn of each
other's deaths: by what on each node, and after what silence. Start it as you start your
program. All pairs connect for it. ? stands for ranks that could not be asked. The exit
code is 1 if a pair has no fabric, else 0.

ftbench info shows the settings themselves.

Examples:
  ftbench doctor
  ftbench doctor --networks 'eth0,!10.1.0.0/16'
  ftbench run -n 4 -- ftbench doctor
  ftbench run -n 4 --fabric unix,tcp -- ftbench doctor
  mpiexec.mpich -n 4 bin/ftbench doctor`
}

// Run looks at the machine, or at the job.
func (c *doctorCmd) Run(to *call) error {
	if c.Fabric != "" {
		os.Setenv(fabricEnv, string(c.Fabric))
	}
	if c.Networks != "" {
		os.Setenv(networksEnv, c.Networks)
	}
	switch {
	case c.Trial:
		return inJob(true, func(w *banyan.World) error { return doctor.Trial(w, to.out) })
	case join.Started():
		return c.job(to)
	}
	return c.machine(to)
}

// job reports on the job that this process is a rank of. Rank 0 returns an error where ranks do not
// reach each other, after all have finalized.
func (c *doctorCmd) job(to *call) error {
	var separated error
	err := inJob(true, func(w *banyan.World) (err error) {
		separated, err = doctor.Job(w, to.out)
		return err
	})
	return cmp.Or(err, separated)
}

// machine reports on this machine.
func (c *doctorCmd) machine(to *call) error {
	allowed, err := allowedFabrics()
	if err != nil {
		return usage(err)
	}
	self, err := selfPath()
	if err != nil {
		return err
	}
	bar := progressbar.Start(to.err, "doctor", 0)
	defer bar.Stop()
	return doctor.Machine(bar.Over(to.out), allowed, []string{self, "doctor", "--trial"})
}

// allowedFabrics are those that a job would use from here.
func allowedFabrics() (route.Set, error) {
	text := os.Getenv(fabricEnv)
	if text == "" {
		return route.All, nil
	}
	return route.ParseSet(text)
}
