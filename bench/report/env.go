package report

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/banyan-hpc/banyan/internal/affinity"
)

// Environment contains facts that may explain a number. A fact that could not be found out is
// empty; an empty member never stands for a known value.
type Environment struct {
	Host   string `json:"host"`
	Kernel string `json:"kernel"` // release and version
	OS     string `json:"os"`     // PRETTY_NAME of os-release
	Arch   string `json:"arch"`   // GOARCH
	CPU    string `json:"cpu"`    // model name
	// Hypervisor: the processor is a virtual one.
	Hypervisor bool   `json:"hypervisor"`
	CPUs       string `json:"cpus"`     // online, as the kernel writes lists: "0-7"
	Affinity   []int  `json:"affinity"` // CPUs on which this process may run
	// QuotaCores is the control groups' CPU limit in cores; absent: none.
	QuotaCores  float64 `json:"quota_cores,omitempty"`
	Governor    string  `json:"governor"`             // of the first CPU
	Boost       string  `json:"boost"`                // "1" or "0"
	HugePages   string  `json:"transparent_hugepage"` // the chosen word
	ShmemHuge   string  `json:"shmem_hugepage"`       // the chosen word
	Memory      string  `json:"memory"`               // MemTotal, as in /proc/meminfo
	Load        string  `json:"load"`                 // /proc/loadavg when the measuring began
	Go          string  `json:"go"`                   // version of the compiler
	GOMAXPROCS  int     `json:"gomaxprocs"`
	Revision    string  `json:"revision"`                 // of the source
	Modified    bool    `json:"revision_modified"`        // the source had uncommitted changes
	Container   string  `json:"container,omitempty"`      // the file that shows it
	CGO         string  `json:"cgo_enabled,omitempty"`    // of the build
	Settings    string  `json:"build_flags,omitempty"`    // -tags, -race, … of the build
	MainVersion string  `json:"module_version,omitempty"` // of the main module
}

// Capture describes the machine and this process as they are now.
func Capture() Environment {
	e := machine(os.DirFS("/"))
	e.Host, _ = os.Hostname() // unknown: empty
	e.Arch, e.Go, e.GOMAXPROCS = runtime.GOARCH, runtime.Version(), runtime.GOMAXPROCS(0)
	e.Affinity, _ = affinity.Allowed() // unknown: empty
	if cores, limited := affinity.Quota(); limited {
		e.QuotaCores = cores
	}
	e.build()
	return e
}

// machine reads the files under root.
func machine(root fs.FS) Environment {
	read := func(name string) string {
		b, err := fs.ReadFile(root, name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	e := Environment{
		Kernel:    strings.TrimSpace(read("proc/sys/kernel/osrelease") + " " + read("proc/sys/kernel/version")),
		CPUs:      read("sys/devices/system/cpu/online"),
		Governor:  read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
		Boost:     read("sys/devices/system/cpu/cpufreq/boost"),
		HugePages: chosen(read("sys/kernel/mm/transparent_hugepage/enabled")),
		ShmemHuge: chosen(read("sys/kernel/mm/transparent_hugepage/shmem_enabled")),
		Memory:    value(read("proc/meminfo"), "MemTotal:"),
		Load:      read("proc/loadavg"),
		OS:        strings.Trim(value(read("etc/os-release"), "PRETTY_NAME="), `"`),
	}
	cpuinfo := read("proc/cpuinfo")
	e.CPU = strings.TrimLeft(value(cpuinfo, "model name"), "\t :")
	e.Hypervisor = strings.Contains(value(cpuinfo, "flags")+" ", " hypervisor ")
	for _, mark := range []string{".dockerenv", "run/.containerenv"} {
		if _, err := fs.Stat(root, mark); err == nil {
			e.Container = "/" + mark
		}
	}
	return e
}

// chosen returns the word in brackets of "always [madvise] never".
func chosen(list string) string {
	_, after, _ := strings.Cut(list, "[")
	word, _, _ := strings.Cut(after, "]")
	return word
}

// value returns the text after name in the first line that begins with it.
func value(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// build fills in how this binary was made.
func (e *Environment) build() {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	e.MainVersion = info.Main.Version
	var flags []string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			e.Revision = s.Value
		case "vcs.modified":
			e.Modified = s.Value == "true"
		case "CGO_ENABLED":
			e.CGO = s.Value
		case "-race", "-tags", "-gcflags", "-ldflags":
			flags = append(flags, s.Key+"="+s.Value)
		}
	}
	e.Settings = strings.Join(flags, " ")
	if e.Revision == "" {
		e.Revision, e.Modified = checkout()
	}
}

// checkout asks git about the checkout in which the binary lies, for binaries that were built with
// -buildvcs=false.
func checkout() (revision string, modified bool) {
	exe, err := os.Executable()
	if err != nil {
		return "", false
	}
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", filepath.Dir(exe)}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if revision, err = git("rev-parse", "HEAD"); err != nil {
		return "", false
	}
	changes, err := git("status", "--porcelain")
	return revision, err != nil || changes != ""
}
