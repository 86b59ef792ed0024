package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/proc"
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

	Bind      Bind
	OnFailure Policy
	// Verdicts are exit codes other than 0 that say what a program has found, not
	// that it failed, as diff's 1: of a rank that has finalized they count in
	// Result.Code, but nobody is told or ended.
	Verdicts []int
	// InitTimeout bounds the start-up, see DefaultInitTimeout. 0 means what
	// InitTimeoutEnv says. A job whose ranks never join has no start-up.
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
}

// check looks at everything that can be wrong before the first process starts.
func (s Spec) check() (plan, error) {
	p := plan{Spec: s}
	if s.N < 1 || s.N > proc.MaxIDs {
		return p, fmt.Errorf("launch: %d ranks: 1 to %d are possible", s.N, proc.MaxIDs)
	}
	if len(s.Argv) == 0 {
		return p, errors.New("launch: no program is named")
	}
	if s.InitTimeout < 0 {
		return p, fmt.Errorf("launch: a start-up of %v: a time above 0 is needed, or 0 for the default", s.InitTimeout)
	}
	if s.Dir != "" {
		if st, err := os.Stat(s.Dir); err != nil {
			return p, fmt.Errorf("launch: working directory: %w", err)
		} else if !st.IsDir() {
			return p, fmt.Errorf("launch: working directory %s is not a directory", s.Dir)
		}
	}
	var err error
	if p.path, err = findProgram(s.Argv[0], s.Dir); err != nil {
		return p, err
	}
	if p.InitTimeout == 0 {
		if p.InitTimeout, err = initTimeout(os.Getenv(InitTimeoutEnv)); err != nil {
			return p, err
		}
	}
	if s.Bind == BindCore {
		cpus, err := affinity.Allowed()
		if err != nil {
			return p, fmt.Errorf("launch: bind to cores: %w", err)
		}
		p.cpus = affinity.Spread(cpus)
	}
	if p.env = s.Env; p.env == nil {
		p.env = os.Environ()
	}
	p.env = withoutLauncher(p.env)
	return p, nil
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
		name, _, _ := strings.Cut(e, "=")
		switch {
		case last[name] != i:
		case strings.HasPrefix(name, "PMI_"), strings.HasPrefix(name, "PMIX_"):
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
	r, n := strconv.Itoa(rank), strconv.Itoa(p.N)
	env := append(p.env[:len(p.env):len(p.env)],
		"PMI_FD="+strconv.Itoa(pmiFD), "PMI_RANK="+r, "PMI_SIZE="+n,
		"BANYAN_JOB="+id, "BANYAN_LOCAL_RANK="+r, "BANYAN_LOCAL_SIZE="+n)
	if p.Bind == BindCore && !isSet(p.env, "GOMAXPROCS") {
		env = append(env, "GOMAXPROCS=1")
	}
	return env
}

func isSet(env []string, name string) bool {
	for _, e := range env {
		if strings.HasPrefix(e, name+"=") {
			return true
		}
	}
	return false
}

// End is how one rank ended.
type End struct {
	Rank, PID int
	// Code is the exit code, and 0 for a rank that a signal killed.
	Code int
	// Signal is what killed it, 0 when it exited.
	Signal unix.Signal
	// After is the time from the start of the process to its end.
	After time.Duration
	// Joined: it has spoken to the launcher. Finalized: it has said goodbye.
	Joined, Finalized bool
	// Stopped: a signal killed it after the launcher had begun to end the job.
	Stopped bool
}

// Failed reports whether the rank ended abnormally: by a signal, with a code
// other than 0, or without finalizing after it had joined.
func (e End) Failed() bool {
	return e.Signal != 0 || e.Code != 0 || e.Joined && !e.Finalized
}

// Status is the rank's end as a shell counts it: the exit code, 128 and the
// number of the signal, or 1 for a rank that left without finalizing.
func (e End) Status() int {
	switch {
	case e.Signal != 0:
		return 128 + int(e.Signal)
	case e.Code == 0 && e.Failed():
		return 1
	}
	return e.Code
}

// String completes the sentence "rank 3 …".
func (e End) String() string {
	switch {
	case e.Signal != 0:
		name := unix.SignalName(e.Signal)
		if name == "" {
			name = "signal " + strconv.Itoa(int(e.Signal))
		}
		return "was killed by " + name
	case e.Joined && !e.Finalized:
		return fmt.Sprintf("exited with code %d without finalizing", e.Code)
	}
	return fmt.Sprintf("exited with code %d", e.Code)
}

// Result is how a job ended.
type Result struct {
	Job  string // its name
	Ends []End  // by rank
	// Code is the exit status that the launcher should end with: the status of
	// the first rank that failed, 0 when none did. A rank that asked for the end
	// of the job counts with the code that it named, output that could not be
	// written with 1, or as SIGPIPE (141) when its reader was gone.
	Code int
	// Output is the first error of writing to Spec.Stdout or Spec.Stderr. Ranks do
	// not notice, and what they print after it is lost; with [Abort] they are ended.
	Output error
}
