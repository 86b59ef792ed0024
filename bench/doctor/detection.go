package doctor

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/exits/hook"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// detection checks the means to detect the death of a process.
func detection(root fs.FS) []finding {
	method, why := shm.Detection()
	loads, text := hook.Available()
	cure := "start jobs with these capabilities, or have ftbench agent run with them"
	if _, err := fs.Stat(root, "sys/kernel/btf/vmlinux"); err != nil {
		cure = "a kernel with CONFIG_DEBUG_INFO_BTF"
	}
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err == nil {
		err = unix.Close(fd)
	}
	if err != nil {
		err = fmt.Errorf("pidfd_open: %w", err)
	}
	return []finding{
		check("deaths", method != shm.SlowDetection, fmt.Sprintf("told of by %s: %s", method, why),
			"told of by "+method+" alone: "+why,
			"they are seen all the same, 20 µs later for each MB that the dead had resident"),
		need("pidfd", err, "the end of a process of this machine is seen, late if it had much memory, and "+
			"processes can be fenced", "a kernel from 5.3, and a seccomp profile that allows it"),
		check("bpf", loads, text, oneLine(text), cure),
		recorder(), silence(),
	}
}

// recorder reports whether the kernel records the ends of ranks that are started in this
// environment.
func recorder() finding {
	const what = "agent"
	table, err := exits.Open()
	if err == nil {
		err = table.Close()
	}
	switch named := os.Getenv(exits.Env); {
	case err == nil:
		return finding{ok, what,
			"the kernel's record of ends is there, also for ranks that ftbench run does not start", ""}
	case named == "":
		return finding{ok, what, "none at " + exits.DefaultAgent +
			": only ranks that ftbench run starts may have the kernel's record of ends", ""}
	case named == exits.Off, named == exits.On:
		return finding{ok, what, exits.Env + "=" + named + ": not asked", ""}
	}
	return finding{warning, what, oneLine(err.Error()), "unset " + exits.Env + ", or start the agent there"}
}

// silence is the time after which a silent rank counts as dead. A wrong setting is reported with
// the settings.
func silence() finding {
	const what = "silence"
	s, err := settings.Load(settings.Here())
	if err != nil {
		return finding{warning, what, "not known: a setting is wrong, see below", ""}
	}
	value := func(id settings.ID) string { return settings.Of(id).Format(s.Int(id)) }
	return check(what, s.On(settings.Detect),
		fmt.Sprintf("of %s is death, heartbeats each %s (detect.timeout, detect.period)",
			value(settings.DetectTimeout), value(settings.DetectPeriod)),
		"not detected (detect = off, "+s.Origin(settings.Detect)+"): ranks whose machine is lost are "+
			"waited for, and a rank that has never talked to a dead one may wait for it", "")
}
