package launch

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/proc"
)

// place is what the environment says about this process.
type place struct {
	fd, rank, size int
}

// pmiPlace reads PMI_FD, PMI_RANK and PMI_SIZE. It reports false when none is
// set and nothing else says that this process is one of several.
func pmiPlace(lookup func(string) (string, bool)) (place, bool, error) {
	var p place
	vars := []struct {
		name string
		to   *int
		max  int
	}{{"PMI_FD", &p.fd, 1 << 30}, {"PMI_RANK", &p.rank, proc.MaxIDs - 1}, {"PMI_SIZE", &p.size, proc.MaxIDs}}
	var set, unset string
	for _, v := range vars {
		text, ok := lookup(v.name)
		if !ok {
			unset = v.name
			continue
		}
		set = v.name
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > v.max {
			return p, false, fmt.Errorf("launch: %w: %s=%q is not a number in 0…%d", ErrEnvironment, v.name, text, v.max)
		}
		*v.to = n
	}
	switch {
	case set == "":
		return p, false, otherLauncher(lookup)
	case unset != "":
		return p, false, fmt.Errorf("launch: %w: %s is set but %s is not: start with ftbench run, mpiexec or srun --mpi=pmi2, or unset %s to run alone",
			ErrEnvironment, set, unset, set)
	case p.rank >= p.size:
		return p, false, fmt.Errorf("launch: %w: PMI_RANK=%d is not below PMI_SIZE=%d", ErrEnvironment, p.rank, p.size)
	}
	return p, true, nil
}

// otherLauncher refuses to be a world of one where the environment says that
// this is one of several processes, started in a way that is not supported.
func otherLauncher(lookup func(string) (string, bool)) error {
	if _, ok := lookup("PMI_PORT"); ok {
		return fmt.Errorf("launch: %w: PMI_PORT is set but PMI_FD is not: PMI-1 over TCP is not supported, start mpiexec without -pmi-port", ErrEnvironment)
	}
	for _, name := range []string{"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"} {
		text, ok := lookup(name)
		if n, err := strconv.Atoi(text); ok && (err != nil || n > 1) {
			return fmt.Errorf("launch: %w: %s=%s says this is one of several processes, but there is no PMI_FD: start with ftbench run, mpiexec or srun --mpi=pmi2, or unset %s to run alone",
				ErrEnvironment, name, text, name)
		}
	}
	return nil
}

// openPMI takes over the inherited descriptor: children of this process do not
// inherit it further.
func openPMI(fd int) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("launch: %w: PMI_FD=%d is not an open descriptor (did a wrapper close it?): %w", ErrEnvironment, fd, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("launch: %w: PMI_FD=%d is not a socket", ErrEnvironment, fd)
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("launch: PMI_FD=%d: set non-blocking: %w", fd, err)
	}
	return os.NewFile(uintptr(fd), "pmi"), nil
}
