package hook

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// tracepoints are the arguments of the running kernel's tracepoints.
type tracepoints struct {
	groupDead bool   // sched_process_exit passes whether the last thread ends, since Linux 6.16
	signal    bool   // signal_generate passes the task where banyan_signal reads it
	exec      string // the tracepoint of banyan_exec; "" if there is none
}

// kernelTypes is read once for all programs of this process: each reading takes some twenty milliseconds of processor time.
var kernelTypes = btf.NewCache()

// readTracepoints looks for them in BTF.
func readTracepoints() (t tracepoints, err error) {
	spec, err := kernelTypes.Kernel()
	if err != nil {
		return t, fmt.Errorf("read the kernel's types (/sys/kernel/btf/vmlinux, CONFIG_DEBUG_INFO_BTF): %w", err)
	}
	t.groupDead = len(arguments(spec, "sched_process_exit")) == 2
	t.signal = passesTask(spec, "signal_generate", 2)
	for _, name := range []string{"sched_prepare_exec", "sched_process_exec"} {
		if passesTask(spec, name, 0) {
			t.exec = name
			break
		}
	}
	return t, nil
}

// arguments are those of a tracepoint, none if the kernel does not have it.
func arguments(spec *btf.Spec, tracepoint string) []btf.FuncParam {
	var t *btf.Typedef
	if spec.TypeByName("btf_trace_"+tracepoint, &t) != nil {
		return nil
	}
	pointer, ok := t.Type.(*btf.Pointer)
	if !ok {
		return nil
	}
	proto, ok := pointer.Target.(*btf.FuncProto)
	if !ok || len(proto.Params) == 0 {
		return nil
	}
	return proto.Params[1:] // the first one is the tracepoint's own
}

// passesTask reports whether the argument of a tracepoint at a place is a task.
func passesTask(spec *btf.Spec, tracepoint string, at int) bool {
	all := arguments(spec, tracepoint)
	if at >= len(all) {
		return false
	}
	pointer, ok := all[at].Type.(*btf.Pointer)
	return ok && pointer.Target.TypeName() == "task_struct"
}

// ownSpace is the inode of this process's pid namespace.
func ownSpace() (uint32, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return 0, fmt.Errorf("the pid namespace of this process: %w", err)
	}
	return uint32(st.Ino), nil
}

// inside returns the pid of a process in its own pid namespace, and that namespace: zero if it
// cannot be seen, because the process has ended or, in a namespace below, belongs to another user
// (CAP_SYS_PTRACE sees it). Then only readers in the loader's namespace see its end.
func (h *Hook) inside(pid int) (inner, space uint32) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return 0, 0 // /proc numbers processes for another namespace
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	n, level := innermost(f)
	var st unix.Stat_t
	switch {
	case level == 0:
		return uint32(pid), h.space
	case level < 0 || unix.Stat(fmt.Sprintf("/proc/%d/ns/pid", pid), &st) != nil:
		return 0, 0
	}
	return uint32(n), uint32(st.Ino)
}

// innermost reads the pid of a process in its own namespace from its status, and how many levels below
// /proc's that lies; -1: the status does not contain it.
func innermost(status io.Reader) (pid, level int) {
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if numbers, ok := strings.CutPrefix(lines.Text(), "NSpid:"); ok {
			all := strings.Fields(numbers)
			if len(all) == 0 {
				return 0, -1
			}
			pid, err := strconv.ParseUint(all[len(all)-1], 10, 31)
			if err != nil {
				return 0, -1
			}
			return int(pid), len(all) - 1
		}
	}
	return 0, -1
}
