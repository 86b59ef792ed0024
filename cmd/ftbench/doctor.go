package main

import (
	"cmp"
	"os"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/doctor"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

type doctorCmd struct {
	Fabric   fabricList `placeholder:"LIST" help:"Look at these fabrics only: shm, verbs, unix, tcp, with commas. Default: all (BANYAN_FABRIC)."`
	Networks string     `placeholder:"LIST" help:"Judge the interfaces as with these networks. Default: all that are up (BANYAN_NETWORKS)."`
	JSON     string     `placeholder:"FILE" help:"Store the findings and the environment; -: print them, and the report on standard error."`

	Trial bool `hidden:"" help:"One of two ranks that try whether they reach each other."`
}

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
  ftbench doctor --json doctor.json
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
	file := report.Begin("doctor-job")
	var found *doctor.JobFound
	err := inJob(true, func(w *banyan.World) (err error) {
		if w.Comm().Rank() == 0 {
			err = checkFiles(c.JSON)
		}
		if err == nil {
			found, err = doctor.Job(w, to.words(c.JSON).out)
		}
		if err == nil && found != nil {
			err = to.store(file, c.JSON, found)
		}
		return err
	})
	return cmp.Or(err, found.Err())
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
	file := report.Begin("doctor")
	if err := checkFiles(c.JSON); err != nil {
		return err
	}
	bar := progressbar.Start(to.err, "doctor", 0)
	found, missing := doctor.Machine(bar.Over(to.words(c.JSON).out), allowed, []string{self, "doctor", "--trial"})
	bar.Stop()
	return cmp.Or(to.store(file, c.JSON, doctorResults{found}), missing)
}

// doctorResults are the results in the JSON file of a look at the machine; of a job they are a
// doctor.JobFound.
type doctorResults struct {
	Findings []doctor.Finding `json:"findings"`
}

// allowedFabrics are the fabrics that a job would use from here.
func allowedFabrics() (route.Set, error) {
	text := os.Getenv(fabricEnv)
	if text == "" {
		return route.All, nil
	}
	return route.ParseSet(text)
}
