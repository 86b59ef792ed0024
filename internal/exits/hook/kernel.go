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

// kernel is what the programs have to know of the running kernel and of this
// process's place in it.
type kernel struct {
	space          uint32 // inode of this process's pid namespace
	level          uint32 // how deep it lies; filled in by Hook.level
	lastThreadTold bool   // the tracepoint says whether the last thread ends
	signalTask     int16  // where signal_generate tells the target; absent if it does not
	execAt         string // the tracepoint of exec; "" if there is none
	execTask       int16  // where that tells the task

	task   struct{ signal, leader, exitCode, tgid int16 }
	signal struct{ live, flags, groupExitCode, tgid int16 }
	pid    struct{ level, numbers int16 }
	upid   struct{ size, nr, ns int16 }
	ns     struct{ inum int16 }
}

// readKernel asks BTF where the fields are.
func readKernel() (*kernel, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return nil, fmt.Errorf("the pid namespace of this process: %w", err)
	}
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("read the kernel's types (/sys/kernel/btf/vmlinux, CONFIG_DEBUG_INFO_BTF): %w", err)
	}
	k, err := layout(spec)
	if err != nil {
		return nil, err
	}
	k.space = uint32(st.Ino)
	return k, nil
}

// mostPlace bounds the places of fields, which programs have as 16 bits with a sign.
const mostPlace = 1 << 15

// layout finds in the kernel's types what readKernel says of structures and tracepoints.
func layout(spec *btf.Spec) (*kernel, error) {
	k := new(kernel)
	var pids, common int16
	for _, f := range []struct {
		to     *int16
		strukt string
		field  string
	}{
		{&k.task.signal, "task_struct", "signal"},
		{&k.task.leader, "task_struct", "group_leader"},
		{&k.task.exitCode, "task_struct", "exit_code"},
		{&k.task.tgid, "task_struct", "tgid"},
		{&k.signal.live, "signal_struct", "live"},
		{&k.signal.flags, "signal_struct", "flags"},
		{&k.signal.groupExitCode, "signal_struct", "group_exit_code"},
		{&pids, "signal_struct", "pids"},
		{&k.pid.level, "pid", "level"},
		{&k.pid.numbers, "pid", "numbers"},
		{&k.upid.nr, "upid", "nr"},
		{&k.upid.ns, "upid", "ns"},
		{&common, "pid_namespace", "ns"},
		{&k.ns.inum, "ns_common", "inum"},
	} {
		var s *btf.Struct
		if err := spec.TypeByName(f.strukt, &s); err != nil {
			return nil, fmt.Errorf("the kernel's struct %s: %w", f.strukt, err)
		}
		at, ok := place(s.Members, f.field, nested)
		if !ok || at >= mostPlace || s.Size >= mostPlace {
			return nil, fmt.Errorf("the kernel's struct %s has no usable field %s", f.strukt, f.field)
		}
		*f.to = int16(at)
		if f.strukt == "upid" {
			k.upid.size = int16(s.Size)
		}
	}
	pidType, err := tgidType(spec)
	if err != nil {
		return nil, err
	}
	tgid, inum := int(pids)+8*pidType, int(common)+int(k.ns.inum)
	if tgid >= mostPlace || inum >= mostPlace {
		return nil, fmt.Errorf("the kernel's signal_struct or pid_namespace is too long: %d and %d bytes", tgid, inum)
	}
	k.signal.tgid, k.ns.inum = int16(tgid), int16(inum)
	k.lastThreadTold = len(arguments(spec, "sched_process_exit")) == 2
	k.signalTask = taskArgument(arguments(spec, "signal_generate"))
	for _, at := range []string{"sched_prepare_exec", "sched_process_exec"} {
		if k.execTask = taskArgument(arguments(spec, at)); k.execTask != absent {
			k.execAt = at
			break
		}
	}
	return k, nil
}

// absent is the place of what a kernel does not have.
const absent = -1

// nested is how deep anonymous members may lie in each other.
const nested = 8

// place finds a field, also inside of anonymous members down to a depth, in bytes.
func place(members []btf.Member, name string, depth int) (uint64, bool) {
	for _, m := range members {
		if m.Name == name {
			return uint64(m.Offset.Bytes()), true
		}
		var inside []btf.Member
		switch t := btf.UnderlyingType(m.Type).(type) {
		case *btf.Struct:
			inside = t.Members
		case *btf.Union:
			inside = t.Members
		}
		if m.Name != "" || depth == 0 {
			continue
		}
		if at, ok := place(inside, name, depth-1); ok {
			return uint64(m.Offset.Bytes()) + at, true
		}
	}
	return 0, false
}

// tgidType is the index of a process's own pid in signal_struct.pids.
func tgidType(spec *btf.Spec) (int, error) {
	const most = 64 // Linux has four
	var e *btf.Enum
	if err := spec.TypeByName("pid_type", &e); err != nil {
		return 0, fmt.Errorf("the kernel's enum pid_type: %w", err)
	}
	for _, v := range e.Values {
		if v.Name == "PIDTYPE_TGID" && v.Value < most {
			return int(v.Value), nil
		}
	}
	return 0, fmt.Errorf("the kernel's enum pid_type has no usable PIDTYPE_TGID")
}

// arguments are those of a tracepoint: of sched_process_exit the task and, since
// Linux 6.16, group_dead. None if there is no such tracepoint.
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

// taskArgument is the place of the task among a tracepoint's arguments, which are
// words of eight bytes.
func taskArgument(of []btf.FuncParam) int16 {
	for i, arg := range of {
		if pointer, ok := arg.Type.(*btf.Pointer); ok && pointer.Target.TypeName() == "task_struct" {
			return int16(8 * i)
		}
	}
	return absent
}

// inside finds the pid of a process in its own pid namespace, and that: zero if it
// cannot be seen, because the process is gone or, in a namespace below, somebody
// else's (CAP_SYS_PTRACE sees it). Then only readers in the loader's namespace
// hear of it.
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

// innermost reads in a process's status which pid it has in its own namespace, and how many levels below
// /proc's that lies; -1: it does not say.
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
