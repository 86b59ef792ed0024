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

	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/internal/futex"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// state is the verdict of a finding.
type state string

const (
	ok      state = "ok"
	warning state = "warning"
	missing state = "missing"
)

// finding is a line of the report. What is not ok has a cure, if there is one.
type finding struct {
	state            state
	what, text, cure string
}

// The environment variables that the cures name.
const (
	fabricEnv   = "BANYAN_FABRIC"
	networksEnv = "BANYAN_NETWORKS"
)

// printer prints the report, up to the first write that fails.
type printer struct {
	out     io.Writer
	err     error
	missing int // lines that say so
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, args...)
	}
}

func (p *printer) section(name string) { p.printf("# %s\n", name) }

func (p *printer) all(found ...finding) {
	for _, f := range found {
		if f.cure != "" {
			f.text += ": " + f.cure
		}
		if f.state == missing {
			p.missing++
		}
		p.printf("%-8s %-18s %s\n", f.state, f.what, f.text)
	}
}

// sharedMemory looks at what shared memory is made of.
func sharedMemory(root fs.FS) []finding {
	return []finding{place(), segment(), kernelCopy(root), barrier()}
}

// place says what decides with whom memory is shared.
func place() finding {
	n, err := route.Here()
	if err != nil {
		return finding{missing, "place", err.Error(), ""}
	}
	text := fmt.Sprintf("pid namespace %d, user namespace %d, user %d:%d", n.PIDs, n.Users, n.UID, n.GID)
	if n.Name != "" {
		text += fmt.Sprintf(", %s=%s", route.NameVariable, n.Name)
	}
	if n.Hidden {
		return finding{warning, "place", text + ", may not be looked into",
			"other ranks cannot map its memory: run a binary that may be read and has no file capabilities"}
	}
	return finding{ok, "place", text + ": shared with ranks that have the same", ""}
}

// segment makes an endpoint, as a rank would.
func segment() finding {
	p, err := shm.Open(shm.Config{MaxProcs: 1})
	if err == nil {
		err = p.Close()
	}
	if err != nil {
		return finding{missing, "segment", err.Error(), ""}
	}
	return finding{ok, "segment", "a sealed memfd can be made and filled", ""}
}

// kernelCopy asks whether one process may read another's memory.
func kernelCopy(root fs.FS) finding {
	const what = "kernel copy"
	if _, err := unix.ProcessVMReadv(os.Getpid(), nil, nil, 0); err != nil { // of nothing: whether it may be called
		return finding{warning, what, fmt.Sprintf("process_vm_readv: %v", err),
			"long messages are streamed through the ring; allow the call in the container's seccomp profile"}
	}
	scope := number(root, "proc/sys/kernel/yama/ptrace_scope")
	switch {
	case scope == "2" && !capable(unix.CAP_SYS_PTRACE), scope == "3":
		return finding{warning, what, "kernel.yama.ptrace_scope is " + scope,
			"long messages are streamed through the ring; sysctl kernel.yama.ptrace_scope=1 allows the copy"}
	case scope == "":
		return finding{ok, what, "process_vm_readv, no Yama", ""}
	}
	return finding{ok, what, "process_vm_readv, kernel.yama.ptrace_scope is " + scope, ""}
}

func barrier() finding {
	if !futex.Registered() {
		return finding{warning, "barrier", "membarrier is refused",
			"short messages cost a fence each; allow the call in the container's seccomp profile"}
	}
	return finding{ok, "barrier", "membarrier", ""}
}

// network looks at sockets.
func network() []finding {
	found := []finding{unixSockets()}
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
		word := "left out"
		if c.Used {
			word = "used"
			used++
		}
		found = append(found, finding{ok, c.Interface, fmt.Sprintf("%v %s: %s", c.Addr, word, c.Why), ""})
	}
	if used == 0 {
		found = append(found, finding{warning, "tcp", "no address reaches other machines",
			"name the interfaces with " + networksEnv + " or --networks"})
	}
	return found
}

func unixSockets() finding {
	l, err := net.Listen("unix", "@banyan-doctor-"+strconv.Itoa(os.Getpid()))
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		return finding{missing, "unix", err.Error(), "ranks that share no memory use TCP"}
	}
	return finding{ok, "unix", "abstract Unix-domain sockets", ""}
}

// devices looks for hardware that Banyan does not use yet, so that nobody wonders.
func devices(root fs.FS) []finding {
	list, err := fs.ReadDir(root, "sys/class/infiniband")
	if err != nil || len(list) == 0 {
		return []finding{{warning, "rdma", "no device in /sys/class/infiniband",
			"if there is an adapter, load its driver; this version of Banyan uses TCP over it all the same"}}
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return []finding{{warning, "rdma", strings.Join(names, ", "),
		"this version of Banyan does not use RDMA, but TCP over its network interface"}}
}

// processors looks at where ranks may run.
func processors(root fs.FS) []finding {
	cpus, err := affinity.Allowed()
	if err != nil {
		return []finding{{missing, "cpus", err.Error(), ""}}
	}
	found := []finding{{ok, "cpus", fmt.Sprintf("%d allowed: %v", len(cpus), cpus), ""}}
	switch quota, limited := affinity.Quota(); {
	case limited && quota < float64(len(cpus)):
		found = append(found, finding{warning, "quota",
			fmt.Sprintf("the control group allows %.2f cores of %d", quota, len(cpus)),
			"more ranks than that sleep instead of spinning; raise cpu.max"})
	case limited:
		found = append(found, finding{ok, "quota", fmt.Sprintf("%.2f cores", quota), ""})
	default:
		found = append(found, finding{ok, "quota", "none", ""})
	}
	if g := number(root, "sys/devices/system/cpu/cpufreq/policy0/scaling_governor"); g == "powersave" {
		found = append(found, finding{warning, "governor", g,
			"latencies vary with the clock; cpupower frequency-set -g performance"})
	}
	return found
}

// fewFiles is the limit of descriptors below which a rank with peers on all sides runs out of them.
const fewFiles = 1024

// limits looks at what a peer costs.
func limits(root fs.FS) []finding {
	var found []finding
	var files, space unix.Rlimit
	err := errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &files), unix.Getrlimit(unix.RLIMIT_AS, &space))
	if err != nil {
		return []finding{{missing, "rlimits", err.Error(), ""}}
	}
	text := fmt.Sprintf("%d, at most %d", files.Cur, files.Max)
	if files.Cur < fewFiles {
		found = append(found, finding{warning, "open files", text,
			"each peer takes one or two; raise the limit with ulimit -n"})
	} else {
		found = append(found, finding{ok, "open files", text, ""})
	}
	if space.Cur != unix.RLIM_INFINITY {
		found = append(found, finding{warning, "address space", fmt.Sprintf("%d MiB", space.Cur>>20),
			"each rank reserves 300 KiB for each rank of the job; ulimit -v unlimited"})
	} else {
		found = append(found, finding{ok, "address space", "unlimited", ""})
	}
	return append(found, memory(root))
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
			limit, err := strconv.ParseInt(number(root, path.Join(at, "memory.max")), 10, 64)
			if err == nil {
				used, _ := strconv.ParseInt(number(root, path.Join(at, "memory.current")), 10, 64)
				f := finding{ok, "memory", fmt.Sprintf("control group %s: %d of %d MiB in use", dir, used>>20,
					limit>>20), ""}
				if limit-used < limit/10 {
					f.state, f.cure = warning,
						"each pair of ranks takes 600 KiB; raise memory.max or start fewer ranks"
				}
				return f
			}
			if dir == "/" {
				break
			}
		}
	}
	return finding{ok, "memory", "no limit of a control group", ""}
}

// settingsFound says which files of settings are read; ftbench info has the rest.
func settingsFound() []finding {
	set, err := settings.Load(settings.Here())
	if err != nil {
		return []finding{{missing, "settings", oneLine(err.Error()), "correct the file or the variable"}}
	}
	var found []finding
	for _, src := range set.Sources {
		f := finding{ok, "file", src.Path + ": " + src.State, ""}
		if src.Foreign {
			f.state, f.cure = warning, "ftbench tune measures this machine"
		}
		if src.Denied {
			f.state, f.cure = warning, "set HOME to this user's, or "+settings.FileVariable
		}
		found = append(found, f)
	}
	changed := 0
	for i := range settings.Knobs() {
		if set.Changed(settings.ID(i)) {
			changed++
		}
	}
	return append(found, finding{ok, "knobs", fmt.Sprintf("%d differ from the defaults (ftbench info -c)", changed),
		""})
}

// number is what a file of one word says, "" if there is none.
func number(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}

// capable reports whether this process has a capability.
func capable(c int) bool {
	n, err := route.Here()
	return err == nil && n.Caps>>c&1 != 0
}
