package join

import (
	"fmt"
	"os"
	"strconv"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/rendezvous"
	"github.com/banyan-hpc/banyan/internal/proc"
	"golang.org/x/sys/unix"
)

// place is this process's place in its job, from the environment.
type place struct {
	rank, size int
	fd         int                // of the launcher, if at is nil
	at         *rendezvous.Config // how the ranks find each other without a launcher
	seed       *rendezvous.Secret // set by Join
}

// findPlace reports false for a world of one. A launcher's variables take precedence over RANK and
// WORLD_SIZE, which may come from a launcher further out.
func findPlace(env pmi.Lookup) (place, bool, error) {
	if p, ok, err := pmiPlace(env); ok || err != nil {
		return p, ok, err
	}
	c, ok, err := rendezvous.FromEnvironment(env)
	switch {
	case err != nil:
		return place{}, false, err
	case !ok:
		return place{}, false, otherLauncher(env)
	}
	return place{rank: c.Rank, size: c.Size, at: c}, true, nil
}

// Started reports whether the environment makes this process a rank of a job, also in a way that
// [Join] refuses.
func Started() bool {
	_, ok, err := findPlace(os.LookupEnv)
	return ok || err != nil
}

// pmiPlace reads PMI_FD, PMI_RANK and PMI_SIZE. It reports false when none is set.
func pmiPlace(env pmi.Lookup) (place, bool, error) {
	var p place
	vars := []struct {
		name string
		to   *int
		max  int
	}{{"PMI_FD", &p.fd, 1 << 30}, {"PMI_RANK", &p.rank, proc.MaxIDs - 1}, {"PMI_SIZE", &p.size, proc.MaxIDs}}
	var set, unset string
	for _, v := range vars {
		text, ok := env(v.name)
		if !ok {
			unset = v.name
			continue
		}
		set = v.name
		var err error
		if *v.to, err = pmi.Number(v.name, text, 0, v.max); err != nil {
			return p, false, err
		}
	}
	switch {
	case set == "":
		return p, false, nil
	case unset != "":
		return p, false, pmi.EnvironmentError("%s is set but %s is not: "+
			"start with ftbench run, mpiexec or srun --mpi=pmi2, or unset %s to run alone", set, unset, set)
	case p.rank >= p.size:
		return p, false, pmi.EnvironmentError("PMI_RANK=%d is not below PMI_SIZE=%d", p.rank, p.size)
	}
	return p, true, nil
}

// otherLauncher returns an error where the process is one of several, started in a way that is not
// supported.
func otherLauncher(env pmi.Lookup) error {
	if _, ok := env("PMI_PORT"); ok {
		return pmi.EnvironmentError("PMI_PORT is set but PMI_FD is not: " +
			"PMI-1 over TCP is not supported, start mpiexec without -pmi-port")
	}
	// A batch script is one process and has SLURM_NTASKS; only srun sets the size of a step.
	for _, name := range []string{"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"} {
		text, ok := env(name)
		if n, err := strconv.Atoi(text); ok && (err != nil || n > 1) {
			return pmi.EnvironmentError("%s=%s says this is one of several processes, but there is no PMI_FD: "+
				"start with ftbench run, mpiexec or srun --mpi=pmi2, or unset %s to run alone", name, text, name)
		}
	}
	return nil
}

// openPMI takes over the inherited descriptor: children of this process do not inherit it.
func openPMI(fd int) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, pmi.EnvironmentError("PMI_FD=%d is not an open descriptor "+
			"(did a wrapper close it?): fstat: %w", fd, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, pmi.EnvironmentError("PMI_FD=%d is not a socket "+
			"(did a wrapper close it, and something else open?): keep descriptor %d open, "+
			"or unset PMI_FD, PMI_RANK and PMI_SIZE to run alone", fd, fd)
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("launch: PMI_FD=%d: set non-blocking: %w", fd, err)
	}
	return os.NewFile(uintptr(fd), "pmi"), nil
}
