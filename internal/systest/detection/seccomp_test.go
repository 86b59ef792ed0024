package detection

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// refuseEnv names a call of refusable and the errno with which a seccomp filter refuses it,
// refusedRankEnv the rank, "" for all. A rank installs the filter and executes itself again, so
// that Go's runtime starts with it.
const (
	refuseEnv      = "BANYAN_TEST_REFUSE"
	refusedRankEnv = "BANYAN_TEST_REFUSE_RANK"
)

// call is a system call of a rank, or some of its uses.
type call struct {
	nr uintptr
	// The filter checks argument arg if mask is not 0: it refuses the call if arg&mask == value.
	arg         int
	mask, value uint32
	sockets     bool // called if ranks use sockets
	needed      bool // on each fabric
}

// refusable are the calls that Banyan makes itself in a rank and that Go's runtime does not need.
var refusable = map[string]call{
	"pidfd_getfd": {nr: unix.SYS_PIDFD_GETFD},
	"pidfd_open":  {nr: unix.SYS_PIDFD_OPEN}, "pidfd_send_signal": {nr: unix.SYS_PIDFD_SEND_SIGNAL},
	"memfd_create": {nr: unix.SYS_MEMFD_CREATE}, "fallocate": {nr: unix.SYS_FALLOCATE},
	"ftruncate":           {nr: unix.SYS_FTRUNCATE},
	"fcntl (F_ADD_SEALS)": {nr: unix.SYS_FCNTL, arg: 1, mask: ^uint32(0), value: unix.F_ADD_SEALS},
	"fcntl (F_GET_SEALS)": {nr: unix.SYS_FCNTL, arg: 1, mask: ^uint32(0), value: unix.F_GET_SEALS},
	"mmap (MAP_SHARED)":   {nr: unix.SYS_MMAP, arg: 3, mask: 3, value: unix.MAP_SHARED},
	"sched_getaffinity":   {nr: unix.SYS_SCHED_GETAFFINITY}, "sched_getattr": {nr: unix.SYS_SCHED_GETATTR},
	"sched_setattr": {nr: unix.SYS_SCHED_SETATTR}, "sched_yield": {nr: unix.SYS_SCHED_YIELD},
	"prlimit64": {nr: unix.SYS_PRLIMIT64},
	"prctl":     {nr: unix.SYS_PRCTL}, "membarrier": {nr: unix.SYS_MEMBARRIER},
	"set_robust_list": {nr: unix.SYS_SET_ROBUST_LIST}, "get_robust_list": {nr: unix.SYS_GET_ROBUST_LIST},
	"futex_waitv": {nr: unix.SYS_FUTEX_WAITV}, "process_vm_readv": {nr: unix.SYS_PROCESS_VM_READV},
	"process_vm_writev": {nr: unix.SYS_PROCESS_VM_WRITEV},
	"futex (shared)":    {nr: unix.SYS_FUTEX, arg: 1, mask: 128, value: 0, needed: true},
	"pread64":           {nr: unix.SYS_PREAD64}, "ppoll": {nr: unix.SYS_PPOLL, needed: true},
	"ioctl": {nr: unix.SYS_IOCTL}, "mremap": {nr: unix.SYS_MREMAP},
	"readlinkat": {nr: unix.SYS_READLINKAT}, "fstat": {nr: unix.SYS_FSTAT, needed: true},
	"madvise": {nr: unix.SYS_MADVISE, arg: 2, mask: ^uint32(1), value: unix.MADV_POPULATE_READ},
	"socket":  {nr: unix.SYS_SOCKET, sockets: true}, "bind": {nr: unix.SYS_BIND, sockets: true},
	"listen": {nr: unix.SYS_LISTEN, sockets: true}, "connect": {nr: unix.SYS_CONNECT, sockets: true},
	"accept4": {nr: unix.SYS_ACCEPT4, sockets: true}, "getsockname": {nr: unix.SYS_GETSOCKNAME, sockets: true},
	"getsockopt": {nr: unix.SYS_GETSOCKOPT, sockets: true}, "setsockopt": {nr: unix.SYS_SETSOCKOPT, sockets: true},
	"sendto": {nr: unix.SYS_SENDTO, sockets: true}, "sendmsg": {nr: unix.SYS_SENDMSG, sockets: true},
	"recvfrom": {nr: unix.SYS_RECVFROM, sockets: true}, "recvmsg": {nr: unix.SYS_RECVMSG, sockets: true},
	"timerfd_create":  {nr: unix.SYS_TIMERFD_CREATE, sockets: true},
	"timerfd_settime": {nr: unix.SYS_TIMERFD_SETTIME, sockets: true},
}

// unrefusable are functions of the packages unix and syscall that a rank calls and that are none of
// the above, with the reason.
var unrefusable = map[string]string{
	"Close": "a descriptor stays open", "Munmap": "a mapping stays", "SYS_MUNMAP": "as Munmap", "Open": "Go opens files by it",
	"Read": "Go reads files by it", "SYS_NANOSLEEP": "Go's runtime sleeps by it",
	"Write": "Go writes files by it", "Stat": "newfstatat: Go looks at files by it", "Access": "of ftbench tune",
	"EpollCreate1": "Go's runtime ends without it", "EpollCtl": "as epoll_create1",
	"EpollWait":       "as epoll_create1 (epoll_pwait)",
	"SYS_EPOLL_PWAIT": "as epoll_create1", "Eventfd": "as epoll_create1 (eventfd2)",
	"CloseOnExec": "fcntl: Go's runtime looks at descriptors by it",
	"SetNonblock": "as CloseOnExec", "Getpid": "cannot be refused without harm to Go's signals",
	"Gettid": "as Getpid", "ClockGettime": "no system call (vDSO)",
	"SchedSetaffinityDynamic": "of the launcher",
	"GetsockoptUcred":         "of the agent's clients, which do without an agent", "Fstat": "as fstat",
	"Readlink": "as readlinkat",
	"Getpgrp":  "of the launcher", "IoctlGetTermios": "of the launcher",
	"Kill":       "of the launcher, and of a rank without a descriptor of the peer, which goes on",
	"Mprotect":   "in a build with RDMA, where calls of C do without a stack of their own; the C library needs it for threads",
	"Socketpair": "of the launcher", "Waitid": "of the launcher",
	"CmsgSpace": "no call", "Errno": "no call", "Getpagesize": "no call", "NewCPUSet": "no call",
	"NsecToTimespec": "no call", "ParseSocketControlMessage": "no call",
	"ParseUnixRights": "no call", "RawSyscall": "by number", "RawSyscall6": "by number", "Syscall": "by number",
	"Syscall6": "by number", "Signal": "no call",
	"SignalName": "no call", "WaitStatus": "no call",
}

// callOf is the system call of functions with another name.
var callOf = map[string]string{
	"Getrlimit": "prlimit64", "PrctlRetInt": "prctl", "Pread": "pread64", "Poll": "ppoll",
	"FcntlInt": "fcntl (F_ADD_SEALS)", "Mmap": "mmap (MAP_SHARED)", "MmapPtr": "mmap (MAP_SHARED)",
	"SYS_FUTEX":               "futex (shared)",
	"SchedGetaffinityDynamic": "sched_getaffinity", "IoctlGetInt": "ioctl", "GetsockoptInt": "getsockopt", "GetsockoptTCPInfo": "getsockopt",
	"SetsockoptInt": "setsockopt", "SetsockoptString": "setsockopt", "SchedGetAttr": "sched_getattr",
	"SchedSetAttr": "sched_setattr",
}

// TestCallsAreKnown: refusable has every system call of the packages that a rank links.
func TestCallsAreKnown(t *testing.T) {
	said := regexp.MustCompile(`\b(?:unix|syscall)\.(?:(SYS_[A-Z0-9_]+)|([A-Z]\w*)\()`)
	snake := regexp.MustCompile(`([a-z0-9])([A-Z])`)
	// The packages of this module that a rank links.
	list := exec.Command("go", "list", "-deps", "-f",
		"{{if not .Standard}}{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}{{end}}",
		"github.com/banyan-hpc/banyan")
	dirs, err := list.Output()
	require.NoError(t, err)
	for _, dir := range strings.Fields(string(dirs)) {
		files, err := filepath.Glob(dir + "/*.go")
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range said.FindAllStringSubmatch(string(text), -1) {
				name := m[1] + m[2]
				call := strings.ToLower(strings.TrimPrefix(snake.ReplaceAllString(name, "${1}_$2"), "SYS_"))
				if other := callOf[name]; other != "" {
					call = other
				}
				_, known := refusable[call]
				_, exempt := unrefusable[name]
				require.True(t, known || exempt, "%s calls %s: have refusable try what happens where it is refused",
					file, name)
			}
		}
	}
}

// refuseCalls installs the filter of the environment and executes this program again.
func refuseCalls() error {
	asked := os.Getenv(refuseEnv)
	if asked == "" {
		return nil
	}
	if rank := os.Getenv(refusedRankEnv); rank != "" && rank != os.Getenv("PMI_RANK") {
		return nil
	}
	if err := os.Unsetenv(refuseEnv); err != nil {
		return err
	}
	name, code, _ := strings.Cut(asked, "=")
	errno, err := strconv.Atoi(code)
	if err != nil {
		return err
	}
	filter := refusable[name].filter(uint32(errno))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // exec keeps only this thread
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

// filter is the program that refuses the call: struct seccomp_data has the number at 0 and the
// arguments, of eight bytes, from 16 on.
func (c call) filter(errno uint32) []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	unless := func(k uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: skip}
	}
	leave := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	no, yes := leave(unix.SECCOMP_RET_ERRNO|errno), leave(unix.SECCOMP_RET_ALLOW)
	if c.mask == 0 {
		return []unix.SockFilter{load(0), unless(uint32(c.nr), 1), no, yes}
	}
	return []unix.SockFilter{
		load(0), unless(uint32(c.nr), 4), load(16 + 8*uint32(c.arg)),
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: c.mask}, unless(c.value, 1), no, yes,
	}
}

// refusedCalls has ranks exchange messages of several sizes, lend, call collectives, and survive the
// last one.
func refusedCalls(w *banyan.World) error {
	c := w.Comm()
	next, last := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	for _, size := range []int{8, 5000, 200_000, 2_000_000, 2_000_001, 2_000_002} {
		req := c.Isend(ranktest.Pattern(c.Rank(), size), next, size)
		buf := make([]byte, size)
		if _, err := c.Recv(buf, last, size); err != nil {
			return err
		}
		if _, err := req.Wait(); err != nil {
			return err
		}
		if err := ranktest.CheckEqual(buf, ranktest.Pattern(last, size)); err != nil {
			return err
		}
	}
	if err := lendOn(w, next, last); err != nil {
		return err
	}
	if c.Rank() == c.Size()-1 {
		if err := c.Barrier(); err != nil {
			return err
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return ranktest.WantFailure("barrier", ranktest.BarrierUntilError(c))
}

// lendOn lends memory to one rank and borrows another's, in place or as a copy.
func lendOn(w *banyan.World, next, last int) error {
	const size = 5000
	c := w.Comm()
	own, err := banyan.Alloc[byte](w, size)
	if err != nil {
		return err
	}
	copy(own, ranktest.Pattern(c.Rank(), size))
	req := c.Ilend(own, next, size)
	ln, err := c.Borrow(last, size)
	if err != nil {
		return err
	}
	if err := errors.Join(ranktest.CheckEqual(ln.Bytes(), ranktest.Pattern(last, size)), ln.Return()); err != nil {
		return err
	}
	if _, err := req.Wait(); err != nil {
		return err
	}
	return banyan.Free(w, own)
}

// TestRefusedCalls: whichever system call a seccomp profile refuses to one rank or to all, the job
// works and survives a death, if need be over another fabric. If a call of required sockets or of
// the start is refused, the rank names it and asks for a profile that allows it. With BANYAN_LONG both errors are tried for each
// call and for one rank and all, else one of them, in turn.
func TestRefusedCalls(t *testing.T) {
	names := make([]string, 0, len(refusable))
	for name := range refusable {
		if name != "pread64" || !loaded(t) { // by which the C library's loader reads, before main
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		for j, who := range []string{"one", "all"} {
			rank := []string{"1", ""}[j]
			for _, errno := range ranktest.InTurn(i+j, unix.EPERM, unix.ENOSYS) {
				t.Run(fmt.Sprintf("%s/%s/%s", name, unix.ErrnoName(errno), who), func(t *testing.T) {
					refuse(t, name, errno, rank)
				})
			}
		}
	}
}

// loaded reports whether the C library's loader starts this program: it was built with cgo.
func loaded(t *testing.T) bool {
	f, err := elf.Open("/proc/self/exe")
	require.NoError(t, err)
	defer f.Close()
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

func refuse(t *testing.T, name string, errno unix.Errno, rank string) {
	exe, err := os.Executable()
	require.NoError(t, err)
	var out bytes.Buffer
	env := append(os.Environ(), ranktest.RoleEnv+"=refused calls",
		fmt.Sprintf("%s=%s=%d", refuseEnv, name, int(errno)), refusedRankEnv+"="+rank)
	if refusable[name].sockets {
		env = append(env, "BANYAN_FABRIC=unix,tcp")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // ends a rank that hangs without naming the call
	defer cancel()
	res, err := launch.Run(ctx, launch.Spec{
		N: 3, Argv: []string{exe}, Env: append(env, ranktest.Quick...), Stdout: io.Discard, Stderr: &out,
		OnFailure: launch.Continue,
	})
	require.NoError(t, err)
	if works := !res.Ends[0].Failed() && !res.Ends[1].Failed() && res.Ends[2].Signal == unix.SIGKILL; works {
		t.Logf("works\n%s", &out)
		return
	}
	require.True(t, refusable[name].sockets || refusable[name].needed, "%v\n%s", res.Ends, &out)
	word, _, _ := strings.Cut(name, " ")
	require.Regexp(t, `refused calls: .*`+word+`.*(seccomp|allow)`, out.String(), "%v", res.Ends)
	t.Logf("names the call\n%s", &out)
}
