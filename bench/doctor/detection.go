package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/exits/hook"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// deaths says how the ranks learn of each other's deaths: all[i] is what rank i says; nil where it
// could not be asked.
func deaths(all []*rankReport, node func(int) int) string {
	var b strings.Builder
	b.WriteString("# failure detection\n")
	b.WriteString(silences(all))
	by := make(map[int][]string) // of each node, what its ranks say
	nodes := 0
	for rank, t := range all {
		if t == nil {
			continue
		}
		n := node(rank)
		nodes = max(nodes, n+1)
		if e := t.Detection.Evidence; !slices.Contains(by[n], e) {
			by[n] = append(by[n], e)
		}
	}
	for n := 0; n < nodes; n++ {
		first := n
		for n+1 < nodes && fmt.Sprint(by[n+1]) == fmt.Sprint(by[first]) {
			n++
		}
		if by[first] == nil {
			continue
		}
		name := fmt.Sprintf("node %d", first)
		if n > first {
			name = fmt.Sprintf("nodes %d to %d", first, n)
		}
		fmt.Fprintf(&b, "%s: deaths are told of first by %s\n", name, strings.Join(by[first], ", by other ranks by "))
	}
	if nodes > 1 {
		b.WriteString("between nodes: by connection\n")
	}
	return b.String()
}

// silences says what silence is death; ranks of which each has another opinion are named.
func silences(all []*rankReport) string {
	var b strings.Builder
	first := all[0].Detection
	switch {
	case !first.On && len(all) == 1:
		b.WriteString("silence: there is nobody to observe\n")
	case !first.On:
		b.WriteString("silence: nobody looks for it (detect is off): ranks whose machine is lost are waited for\n")
	default:
		why := ""
		if first.Longer > 1 {
			why = fmt.Sprintf(", %d times the default as ranks share cores", first.Longer)
		}
		fmt.Fprintf(&b, "silence: of %v is death (detect.timeout%s), heartbeats each %v (detect.period), partition "+
			"rule %s (detect.partition)\n",
			first.Timeout, why, first.Period, first.Partition)
	}
	for rank, t := range all {
		if t == nil {
			continue
		}
		d := t.Detection
		if d.Evidence = first.Evidence; d != first {
			fmt.Fprintf(&b, "warning: rank %d has other values than rank 0 (on %t, timeout %v, period %v, partition "+
				"%s): all ranks need the same\n",
				rank, d.On, d.Timeout, d.Period, d.Partition)
		}
	}
	return b.String()
}

// detection looks at what could tell of the death of a process.
func detection(root fs.FS) []finding {
	found := []finding{onNode(), pidfd()}
	const what = "bpf"
	switch loads, why := hook.Available(); {
	case loads:
		found = append(found, finding{ok, what, why, ""})
	case !exists(root, "sys/kernel/btf/vmlinux"):
		found = append(found, finding{warning, what, oneLine(why), "a kernel with CONFIG_DEBUG_INFO_BTF"})
	default:
		found = append(found, finding{warning, what, oneLine(why),
			"start jobs with these capabilities, or have ftbench agent run with them"})
	}
	return append(found, recorder(), silence())
}

// recorder says who has the kernel record ends for ranks that are started in this environment.
func recorder() finding {
	const what = "agent"
	switch table, err := exits.Open(); {
	case err == nil:
		if err := table.Close(); err != nil {
			return finding{warning, what, err.Error(), ""}
		}
		return finding{ok, what, "the kernel's record of ends is there, also for ranks that ftbench run does not start", ""}
	case os.Getenv(exits.Env) == "":
		return finding{ok, what, "none at " + exits.DefaultAgent +
			": only ranks that ftbench run starts may have the kernel's record of ends", ""}
	case os.Getenv(exits.Env) == exits.Off, os.Getenv(exits.Env) == exits.On:
		return finding{ok, what, exits.Env + "=" + os.Getenv(exits.Env) + ": not asked", ""}
	default:
		return finding{warning, what, oneLine(err.Error()), "unset " + exits.Env + ", or start the agent there"}
	}
}

// silence says when who falls silent counts as dead. A setting that is wrong is reported with the
// settings.
func silence() finding {
	const what = "silence"
	s, err := settings.Load(settings.Here())
	switch {
	case err != nil:
		return finding{warning, what, "not known: a setting is wrong, see below", ""}
	case !s.On(settings.Detect):
		return finding{warning, what, "nobody looks for it (detect = off, " + s.Origin(settings.Detect) +
			"): ranks whose machine is lost are waited for, and who has never talked to a dead rank may wait for it",
			""}
	}
	say := func(id settings.ID) string { return settings.Of(id).Format(s.Int(id)) }
	return finding{ok, what, fmt.Sprintf("of %s is death, heartbeats each %s (detect.timeout, detect.period)",
		say(settings.DetectTimeout), say(settings.DetectPeriod)), ""}
}

// onNode says what tells first of the death of a rank on this machine.
func onNode() finding {
	method, why := shm.Detection()
	if method == shm.SlowDetection {
		return finding{warning, "deaths", "told of by " + method + " alone: " + why,
			"they are seen all the same, 20 µs later for each MB that the dead had resident"}
	}
	return finding{ok, "deaths", fmt.Sprintf("told of by %s: %s", method, why), ""}
}

func pidfd() finding {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err == nil {
		err = unix.Close(fd)
	}
	if err != nil {
		return finding{missing, "pidfd", fmt.Sprintf("pidfd_open: %v", err),
			"a kernel from 5.3, and a seccomp profile that allows it"}
	}
	return finding{ok, "pidfd", "the end of a process of this machine is seen, late if it had much memory, and " +
		"processes can be fenced", ""}
}
