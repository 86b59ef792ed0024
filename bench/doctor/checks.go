package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/internal/futex"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// The environment variables that the cures name.
const (
	fabricEnv   = "BANYAN_FABRIC"
	networksEnv = "BANYAN_NETWORKS"
)

// state is the verdict of a finding.
type state string

const (
	ok      state = "ok"
	warning state = "warning"
	missing state = "missing"
)

// finding is a line of the report. The cure, if there is one, is for a state that is not ok.
type finding struct {
	state            state
	what, text, cure string
}

// Finding is a line of the report on a machine.
type Finding struct {
	Section string `json:"section"`
	State   string `json:"state"` // ok, warning or missing
	What    string `json:"what"`
	Text    string `json:"text"`
	Cure    string `json:"cure,omitempty"` // if not ok
}

// check is ok with text where a condition holds, and else a warning with the problem and its cure.
func check(what string, holds bool, text, problem, cure string) finding {
	if holds {
		return finding{ok, what, text, ""}
	}
	return finding{warning, what, problem, cure}
}

// need is ok with text where a trial succeeded, and else missing with its cure.
func need(what string, err error, text, cure string) finding {
	if err == nil {
		return finding{ok, what, text, ""}
	}
	return finding{missing, what, oneLine(err.Error()), cure}
}

// printer prints the report, up to the first write that fails.
type printer struct {
	out     io.Writer
	err     error
	missing int // number of lines with this state
	part    string
	found   []Finding
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, args...)
	}
}

func (p *printer) section(name string) {
	p.part = name
	p.printf("# %s\n", name)
}

func (p *printer) all(found ...finding) {
	for _, f := range found {
		line := Finding{Section: p.part, State: string(f.state), What: f.what, Text: f.text}
		if f.cure != "" && f.state != ok {
			f.text += ": " + f.cure
			line.Cure = f.cure
		}
		p.found = append(p.found, line)
		if f.state == missing {
			p.missing++
		}
		label := fmt.Sprintf("%-8s %-18s ", f.state, f.what)
		p.printf("%s\n", table.Hang(label, f.text, table.Width(p.out)))
	}
}

// sharedMemory checks the requirements of shared memory.
func sharedMemory(root fs.FS) []finding {
	p, err := shm.Open(shm.Config{MaxProcs: 1})
	if err == nil {
		err = p.Close()
	}
	return []finding{
		place(),
		need("segment", err, "a sealed memfd can be made and filled", ""),
		kernelCopy(root),
		check("barrier", futex.Registered(), "membarrier", "membarrier is refused",
			"short messages cost a fence each; allow the call in the container's seccomp profile"),
	}
}

// place reports the properties that decide with which processes memory is shared.
func place() finding {
	n, err := route.Here()
	if err != nil {
		return need("place", err, "", "")
	}
	text := fmt.Sprintf("pid namespace %d, user namespace %d, user %d:%d", n.PIDs, n.Users, n.UID, n.GID)
	if n.Name != "" {
		text += fmt.Sprintf(", %s=%s", route.NameVariable, n.Name)
	}
	return check("place", !n.Hidden, text+": shared with ranks that have the same", text+", may not be looked into",
		"other ranks cannot map its memory: run a binary that may be read and has no file capabilities")
}

// kernelCopy checks whether one process may read the memory of another.
func kernelCopy(root fs.FS) finding {
	const what, streamed = "kernel copy", "long messages are streamed through the ring; "
	if _, err := unix.ProcessVMReadv(os.Getpid(), nil, nil, 0); err != nil { // of nothing: may it be called?
		return finding{warning, what, fmt.Sprintf("process_vm_readv: %v", err),
			streamed + "allow the call in the container's seccomp profile"}
	}
	scope := word(root, "proc/sys/kernel/yama/ptrace_scope")
	yama := "kernel.yama.ptrace_scope is " + scope
	if scope == "" {
		yama = "no Yama"
	}
	return check(what, scope != "3" && (scope != "2" || capable(unix.CAP_SYS_PTRACE)), "process_vm_readv, "+yama,
		yama, streamed+"sysctl kernel.yama.ptrace_scope=1 allows the copy")
}

// network checks sockets.
func network() []finding {
	l, err := net.Listen("unix", "@banyan-doctor-"+strconv.Itoa(os.Getpid()))
	if err == nil {
		err = l.Close()
	}
	found := []finding{need("unix", err, "abstract Unix-domain sockets", "ranks that share no memory use TCP")}
	var networks []string
	if text := os.Getenv(networksEnv); text != "" {
		networks = strings.Split(text, ",")
	}
	choices, err := tcp.Choose(networks)
	if err != nil {
		return append(found, finding{missing, "tcp", err.Error(), ""})
	}
	used := 0
	for _, c := range choices {
		how := "left out"
		if c.Used {
			how = "used"
			used++
		}
		found = append(found, finding{ok, c.Interface, fmt.Sprintf("%v %s: %s", c.Addr, how, c.Why), ""})
	}
	if used == 0 {
		found = append(found, finding{warning, "tcp", "no address reaches other machines",
			"name the interfaces with " + networksEnv + " or --networks"})
	}
	return found
}

// processors checks where ranks may run.
func processors(root fs.FS) []finding {
	cpus, err := affinity.Allowed()
	if err != nil {
		return []finding{need("cpus", err, "", "")}
	}
	found := []finding{{ok, "cpus", fmt.Sprintf("%d allowed: %v", len(cpus), cpus), ""}}
	text := "none"
	quota, limited := affinity.Quota()
	if limited {
		text = fmt.Sprintf("%.2f cores", quota)
	}
	found = append(found, check("quota", !limited || quota >= float64(len(cpus)), text,
		fmt.Sprintf("the control group allows %.2f cores of %d", quota, len(cpus)),
		"more ranks than that sleep instead of spinning; raise cpu.max"))
	if g := word(root, "sys/devices/system/cpu/cpufreq/policy0/scaling_governor"); g == "powersave" {
		found = append(found, finding{warning, "governor", g,
			"latencies vary with the clock; cpupower frequency-set -g performance"})
	}
	return found
}

// fewFiles is the limit of descriptors below which a rank with peers on all sides runs out of them.
const fewFiles = 1024

// limits checks the resources that a peer takes.
func limits(root fs.FS) []finding {
	var files, space unix.Rlimit
	err := errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &files), unix.Getrlimit(unix.RLIMIT_AS, &space))
	if err != nil {
		return []finding{need("rlimits", err, "", "")}
	}
	text := fmt.Sprintf("%d, at most %d", files.Cur, files.Max)
	return []finding{
		check("open files", files.Cur >= fewFiles, text, text,
			"each peer takes one or two; raise the limit with ulimit -n"),
		check("address space", space.Cur == unix.RLIM_INFINITY, "unlimited", fmt.Sprintf("%d MiB", space.Cur>>20),
			"each rank reserves 300 KiB for each rank of the job; ulimit -v unlimited"),
		memory(root),
	}
}

// memory finds the tightest limit of the control groups.
func memory(root fs.FS) finding {
	list, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return finding{ok, "memory", "no control groups", ""}
	}
	for line := range strings.Lines(string(list)) {
		_, group, v2 := strings.Cut(strings.TrimSpace(line), "0::")
		for dir := path.Clean("/" + group); v2; dir = path.Dir(dir) {
			at := path.Join("sys/fs/cgroup", dir)
			limit, err := strconv.ParseInt(word(root, path.Join(at, "memory.max")), 10, 64)
			if err == nil {
				used, _ := strconv.ParseInt(word(root, path.Join(at, "memory.current")), 10, 64) // unknown: 0
				text := fmt.Sprintf("control group %s: %d of %d MiB in use", dir, used>>20, limit>>20)
				return check("memory", limit-used >= limit/10, text, text,
					"each pair of ranks takes 600 KiB; raise memory.max or start fewer ranks")
			}
			if dir == "/" {
				break
			}
		}
	}
	return finding{ok, "memory", "no limit of a control group", ""}
}

// settingsFound lists the files of settings that are read; ftbench info has the rest.
func settingsFound() []finding {
	set, err := settings.Load(settings.Here())
	if err != nil {
		return []finding{need("settings", err, "", "correct the file or the variable")}
	}
	var found []finding
	for _, src := range set.Sources {
		cure := ""
		switch {
		case src.Denied:
			cure = "set HOME to this user's, or " + settings.FileVariable
		case src.Foreign:
			cure = "ftbench tune measures this machine"
		}
		text := src.Path + ": " + src.State
		found = append(found, check("file", cure == "", text, text, cure))
	}
	changed := 0
	for i := range settings.Knobs() {
		if set.Changed(settings.ID(i)) {
			changed++
		}
	}
	return append(found, finding{ok, "knobs",
		fmt.Sprintf("%d differ from the defaults (ftbench info -c)", changed), ""})
}

// word is the content of a file of one word, "" if there is none.
func word(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// capable reports whether this process has a capability.
func capable(c int) bool {
	n, err := route.Here()
	return err == nil && n.Caps>>c&1 != 0
}
