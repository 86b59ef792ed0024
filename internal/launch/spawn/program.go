package spawn

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/nodemem"
)

// Check finds errors of this machine before the first rank starts.
func (s *Spawner) Check() (err error) {
	if s.Dir != "" {
		if st, err := os.Stat(s.Dir); err != nil {
			return fmt.Errorf("launch: working directory: %w", err)
		} else if !st.IsDir() {
			return fmt.Errorf("launch: working directory %s is not a directory", s.Dir)
		}
	}
	if s.path, err = findProgram(s.Argv[0], s.Dir); err != nil {
		return err
	}
	if s.Bind == BindCore {
		cpus, err := affinity.Allowed()
		if err != nil {
			return fmt.Errorf("launch: bind to cores: %w", err)
		}
		s.cpus = affinity.Spread(cpus)
	}
	return nil
}

// findProgram returns the path by which name can be executed in dir.
func findProgram(name, dir string) (string, error) {
	look := name
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		look = filepath.Join(dir, name)
		if !strings.Contains(look, "/") {
			look = "./" + look
		}
	}
	path, err := exec.LookPath(look)
	if errors.Is(err, exec.ErrNotFound) && look == name {
		if st, herr := os.Stat(filepath.Join(dir, name)); herr == nil && st.Mode().IsRegular() {
			return "", fmt.Errorf("launch: cannot start %s: it is not in PATH; "+
				"the one in the working directory is ./%s", name, name)
		}
	}
	if err != nil {
		return "", fmt.Errorf("launch: cannot start %s: %w", name, err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", fmt.Errorf("launch: cannot start %s: %w", name, err)
	}
	return path, nil
}

// WithoutLauncher drops the variables that a launcher above this one has set, and of equal names
// all but the last: getenv would return the first.
func WithoutLauncher(env []string) []string {
	var kept []string
	last := make(map[string]int, len(env))
	for i, e := range env {
		name, _, _ := strings.Cut(e, "=")
		last[name] = i
	}
	for i, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case last[name] != i:
		case strings.HasPrefix(name, "PMI_"), strings.HasPrefix(name, "PMIX_"):
		case name == exits.Env && exits.Descriptors(value): // of the launcher above
		case name == nodemem.Env:
		case name == "BANYAN_JOB", name == "BANYAN_LOCAL_RANK", name == "BANYAN_LOCAL_SIZE":
		default:
			kept = append(kept, e)
		}
	}
	return kept
}

// pmiFD is the number of the PMI descriptor in a rank: the first after the standard ones.
const pmiFD = 3

// envOf returns the environment of one rank.
func (s *Spawner) envOf(rank int) []string {
	env := append(s.Env[:len(s.Env):len(s.Env)],
		"PMI_FD="+strconv.Itoa(pmiFD), "PMI_RANK="+strconv.Itoa(rank), "PMI_SIZE="+strconv.Itoa(s.N),
		"BANYAN_JOB="+s.ID, "BANYAN_LOCAL_RANK="+strconv.Itoa(rank-s.First), "BANYAN_LOCAL_SIZE="+strconv.Itoa(s.Count))
	if s.Bind == BindCore && lastOf(s.Env, "GOMAXPROCS") < 0 {
		env = append(env, "GOMAXPROCS=1")
	}
	return env
}

// lastOf is the last position of a variable in env, -1 if it is not set.
func lastOf(env []string, name string) int {
	for i, e := range slices.Backward(env) {
		if strings.HasPrefix(e, name+"=") {
			return i
		}
	}
	return -1
}

// Exported returns the named variables of env as NAME=value. A name may bring its value.
func Exported(env, names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		if strings.HasPrefix(name, "=") || name == "" {
			return nil, fmt.Errorf("launch: %s names no variable: NAME or NAME=value is needed", pmi.Excerpt(name))
		}
		if !strings.Contains(name, "=") {
			i := lastOf(env, name)
			if i < 0 {
				return nil, fmt.Errorf("launch: variable %s is to be passed on and is not set: "+
					"give it a value with %s=value", name, name)
			}
			name = env[i]
		}
		out = append(out, name)
	}
	return out, nil
}
