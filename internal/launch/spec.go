package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Policy says what happens to the others when a rank fails: is killed by a
// signal, exits with a code other than 0, or joins and exits without
// finalizing.
type Policy uint8

const (
	// Continue leaves them alone. When the launcher dies they go on as well.
	Continue Policy = iota
	// Abort ends them: SIGTERM, five seconds later SIGKILL. When the launcher
	// dies the kernel kills them.
	Abort
)

// Bind says on which CPUs ranks run.
type Bind uint8

const (
	// BindNone leaves the ranks on the CPUs of the launcher.
	BindNone Bind = iota
	// BindCore gives rank i the i-th of the CPUs on which the launcher may run,
	// one per physical core before any second one, and sets GOMAXPROCS to 1
	// unless it is set. With more ranks than CPUs it begins again at the first:
	// ranks then share CPUs.
	BindCore
)

// DefaultInitTimeout is how long a rank may take to join, from the moment when
// the first one has.
const DefaultInitTimeout = 60 * time.Second

// InitTimeoutEnv names the environment variable that replaces
// [DefaultInitTimeout]: "90s", "2m", or a number of seconds. The launcher reads
// it, and each rank for how long it waits for the launcher's answer.
const InitTimeoutEnv = "BANYAN_INIT_TIMEOUT"

// Spec describes a job.
type Spec struct {
	N    int      // number of ranks, at least 1
	Argv []string // the program, found as a shell finds it, and its arguments
	Env  []string // "NAME=value"; nil means the launcher's environment
	Dir  string   // working directory; "" means the launcher's
	// Export are further variables: "NAME=value", or "NAME" for one of Env, which
	// only matters to ranks on Hosts.
	Export []string

	// Hosts are the machines on which the ranks run, in blocks: as many as it has
	// slots on the first one, then on the second one. nil: this machine, without
	// a remote shell. Ranks on hosts have the environment that the remote shell
	// gives, and over it those variables of Env that begin with BANYAN_ or GO (not
	// BANYAN_NODE, which names one machine) and those of Export. Argv and Dir are
	// looked for on the host.
	Hosts []Host
	// Oversubscribe allows more ranks than the hosts have slots.
	Oversubscribe bool
	// Shell starts Proxy on a host; nil: [DefaultShell]. Proxy is a program that
	// calls [Proxy], with its arguments, such as "/usr/bin/ftbench", "proxy".
	Shell Shell
	Proxy []string

	Bind      Bind
	OnFailure Policy
	// MaxFailures ends the job, as [Abort] does, when more ranks than that have failed. 0: there is no such bound.
	MaxFailures int
	// Exit says which ranks' ends make Result.Code.
	Exit ExitRule
	// Exits has the kernel record the ranks' ends, on this machine; what happens on
	// Hosts is Proxy's business. nil: it does not.
	Exits OpenExits
	// Verdicts are exit codes other than 0 that say what a program has found, not
	// that it failed, as diff's 1: of a rank that has finalized they count in
	// Result.Code, but nobody is told or ended.
	Verdicts []int
	// InitTimeout bounds the start-up, see DefaultInitTimeout. 0 means what
	// InitTimeoutEnv says. A job whose ranks never join has no start-up. It also
	// bounds how long a host takes to be ready.
	InitTimeout time.Duration

	// TagOutput begins each line of a rank's output with "[rank] ".
	TagOutput bool
	// Stdout and Stderr receive the ranks' output by whole lines; lines longer
	// than 64 KiB are cut. Without TagOutput a line that a rank has begun and not
	// continued for 50 ms is passed on as it is: it may be a question. The
	// launcher's own words go to Stderr. nil discards. They may be the same writer
	// or the same file: then writes do not overlap. One that fails gets nothing
	// more, see [Result.Output].
	Stdout, Stderr io.Writer
	// Stdin is for rank 0; the others read the end of file. nil: so does rank 0.
	// A terminal is read while this process is in its foreground. Where it is no
	// *os.File, Run may leave one read of it pending when it returns.
	Stdin io.Reader
	// Signals is what Run forwards to the ranks and to what they have started,
	// typically what [Signals] returns. The second SIGINT, SIGTERM or SIGQUIT
	// kills the ranks; one that comes when all have ended gives up output that
	// nobody reads. SIGTSTP stops the ranks and then this process, so SIGCONT must
	// be among the signals as well. nil or closed: none.
	Signals <-chan os.Signal
}

// plan is a Spec that has been checked and completed.
type plan struct {
	Spec
	path string
	cpus []int // BindCore: where ranks go, in turn
	env  []string

	// The ranks that this process itself starts, and the position in cpus for the
	// first of them. With Hosts there are none.
	first, count, firstCPU int

	shares []share // of Hosts
}

// check looks at everything that can be wrong before the first process starts.
func (s Spec) check() (plan, error) {
	p := plan{Spec: s, count: s.N}
	if s.N < 1 || s.N > proc.MaxIDs {
		return p, fmt.Errorf("launch: %d ranks: 1 to %d are possible", s.N, proc.MaxIDs)
	}
	if len(s.Argv) == 0 {
		return p, errors.New("launch: no program is named")
	}
	if s.MaxFailures < 0 {
		return p, fmt.Errorf("launch: at most %d failures: a number from 0 on is needed, 0 for no bound", s.MaxFailures)
	}
	if s.InitTimeout < 0 {
		return p, fmt.Errorf("launch: a start-up of %v: a time above 0 is needed, or 0 for the default", s.InitTimeout)
	}
	var err error
	if p.InitTimeout == 0 {
		if p.InitTimeout, err = initTimeout(os.Getenv(InitTimeoutEnv)); err != nil {
			return p, err
		}
	}
	if p.env = s.Env; p.env == nil {
		p.env = os.Environ()
	}
	exported, err := exported(p.env, s.Export)
	if err != nil {
		return p, err
	}
	p.env = withoutLauncher(append(slices.Clip(p.env), exported...))
	if s.Hosts != nil {
		return p, p.checkHosts()
	}
	return p, p.checkHere()
}

// checkHere looks at what can be wrong on the machine on which the ranks run.
func (p *plan) checkHere() (err error) {
	if p.Dir != "" {
		if st, err := os.Stat(p.Dir); err != nil {
			return fmt.Errorf("launch: working directory: %w", err)
		} else if !st.IsDir() {
			return fmt.Errorf("launch: working directory %s is not a directory", p.Dir)
		}
	}
	if p.path, err = findProgram(p.Argv[0], p.Dir); err != nil {
		return err
	}
	if p.Bind == BindCore {
		cpus, err := affinity.Allowed()
		if err != nil {
			return fmt.Errorf("launch: bind to cores: %w", err)
		}
		p.cpus = affinity.Spread(cpus)
	}
	return nil
}

// checkHosts looks at what can be seen of a job on hosts without asking them.
func (p *plan) checkHosts() (err error) {
	p.count = 0
	if len(p.Hosts) == 0 {
		return errors.New("launch: an empty list of hosts")
	}
	if p.shares, err = deal(p.Hosts, p.N, p.Oversubscribe); err != nil {
		return err
	}
	if len(p.Proxy) == 0 {
		return errors.New("launch: hosts need the name of the program that is the proxy on them")
	}
	if p.Shell == nil {
		if p.Shell, err = ParseShell(DefaultShell); err != nil {
			return err
		}
	}
	if p.Dir == "" {
		p.Dir = "."
	}
	if p.Dir, err = filepath.Abs(p.Dir); err != nil {
		return fmt.Errorf("launch: working directory: %w", err)
	}
	return nil
}

// exported gives the variables named by Spec.Export with their values.
func exported(env, names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		if strings.HasPrefix(name, "=") || name == "" {
			return nil, fmt.Errorf("launch: %s names no variable: NAME or NAME=value is needed", excerpt(name))
		}
		if !strings.Contains(name, "=") {
			i := lastOf(env, name)
			if i < 0 {
				return nil, fmt.Errorf("launch: variable %s is to be passed on and is not set: give it a value with %s=value", name, name)
			}
			name = env[i]
		}
		out = append(out, name)
	}
	return out, nil
}

func lastOf(env []string, name string) int {
	for i, e := range slices.Backward(env) {
		if strings.HasPrefix(e, name+"=") {
			return i
		}
	}
	return -1
}

// forwarded are the variables that ranks on a host get from here.
func (p *plan) forwarded(h Host) []string {
	var out []string
	for _, e := range p.env {
		name, _, _ := strings.Cut(e, "=")
		named := slices.ContainsFunc(p.Export, func(x string) bool { x, _, _ = strings.Cut(x, "="); return x == name })
		if named || name != nodeEnv && (strings.HasPrefix(name, "BANYAN_") || strings.HasPrefix(name, "GO")) {
			out = append(out, e)
		}
	}
	return append(out, h.Env...)
}

// nodeEnv names the variable that says on which node a process runs, for
// network namespaces, which share one machine.
const nodeEnv = "BANYAN_NODE"

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
			return "", fmt.Errorf("launch: cannot start %s: it is not in PATH; the one in the working directory is ./%s", name, name)
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

func initTimeout(text string) (time.Duration, error) {
	if text == "" {
		return DefaultInitTimeout, nil
	}
	d, err := time.ParseDuration(text)
	if seconds, serr := strconv.ParseFloat(text, 64); serr == nil {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("launch: %s=%q is neither a duration such as 90s nor a number of seconds", InitTimeoutEnv, text)
	}
	return d, nil
}

// withoutLauncher drops what a launcher above this one has set, and of a name
// that occurs twice all but the last: getenv would give the first.
func withoutLauncher(env []string) []string {
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
		case name == "BANYAN_JOB", name == "BANYAN_LOCAL_RANK", name == "BANYAN_LOCAL_SIZE":
		default:
			kept = append(kept, e)
		}
	}
	return kept
}

// pmiFD is the number of the PMI descriptor in a rank: the first after the
// standard ones.
const pmiFD = 3

// envOf returns the environment of one rank.
func (p *plan) envOf(rank int, id string) []string {
	env := append(p.env[:len(p.env):len(p.env)],
		"PMI_FD="+strconv.Itoa(pmiFD), "PMI_RANK="+strconv.Itoa(rank), "PMI_SIZE="+strconv.Itoa(p.N),
		"BANYAN_JOB="+id, "BANYAN_LOCAL_RANK="+strconv.Itoa(rank-p.first), "BANYAN_LOCAL_SIZE="+strconv.Itoa(p.count))
	if p.Bind == BindCore && !isSet(p.env, "GOMAXPROCS") {
		env = append(env, "GOMAXPROCS=1")
	}
	return env
}

func isSet(env []string, name string) bool { return lastOf(env, name) >= 0 }
