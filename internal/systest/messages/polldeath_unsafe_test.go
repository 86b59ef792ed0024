package messages

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/exits/hook"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/nodemem"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// Why unsafe: it lays a word over the mapped page of another process's segment.

// waitEnv names the operation in which survivors wait, endEnv how the last rank ends.
const (
	waitEnv = "BANYAN_TEST_WAIT"
	endEnv  = "BANYAN_TEST_END"
)

// polls has the last rank end while the others poll for it. Their watchers learn nothing, so they
// find the end themselves or wait for ever.
func polls(w *banyan.World) error {
	c := w.Comm()
	last := c.Size() - 1
	victim := 0
	for rank := range c.Size() { // all are connected
		pid := make([]byte, 8)
		st, err := c.Sendrecv([]byte(strconv.Itoa(os.Getpid())), rank, 1, pid, rank, 1)
		if err != nil {
			return err
		}
		if victim, err = strconv.Atoi(string(pid[:st.Count])); err != nil {
			return err
		}
	}
	if c.Rank() == last {
		for rank := range last {
			if _, err := c.Recv(nil, rank, 2); err != nil {
				return err
			}
		}
		if os.Getenv(endEnv) == "exec" {
			return unix.Exec("/bin/sleep", []string{"sleep", "1000"}, os.Environ())
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if err := tellNothing(victim, c); err != nil {
		return err
	}
	if err := c.Send(nil, last, 2); err != nil {
		return err
	}
	switch how := os.Getenv(waitEnv); how {
	case "any":
		_, err := c.Recv(nil, banyan.AnySource, 3)
		return ranktest.WantFailure(how, err)
	case "barrier":
		return ranktest.WantFailure(how, c.Barrier())
	default:
		_, err := c.Recv(nil, last, 3)
		return ranktest.WantFailure(how, err)
	}
}

// tellNothing removes from this rank's watchers all sources of a process's end: its descriptor and
// the kernel's record from all epoll sets, and the wake-up request from this rank's word in the
// segment of the process.
func tellNothing(pid int, c *banyan.Comm) error {
	names, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return err
	}
	var sets, told []int
	for _, name := range names {
		fd, _ := strconv.Atoi(filepath.Base(name))
		switch to, _ := os.Readlink(name); {
		case to == "anon_inode:[eventpoll]":
			sets = append(sets, fd)
		case to == "anon_inode:[pidfd]" || strings.HasPrefix(to, "pidfd:") || to == "anon_inode:bpf-map":
			told = append(told, fd)
		}
	}
	removed := 0
	for _, set := range sets {
		for _, fd := range told {
			if unix.EpollCtl(set, unix.EPOLL_CTL_DEL, fd, nil) == nil {
				removed++
			}
		}
	}
	if removed == 0 {
		return fmt.Errorf("no descriptor of %v was in a set of %v", told, sets)
	}
	return unasked(pid, c.Rank(), int64(c.Size()-1)*nodemem.Head(c.Size()))
}

// unasked withdraws the request that the kernel wake this rank when it marks its word in the
// segment of a process, whose place in the memory of the node is at.
func unasked(pid, rank int, at int64) error {
	const page, words, asks = 4096, 2048, 1 << 31
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return err
	}
	for _, name := range names {
		if to, _ := os.Readlink(name); !strings.HasPrefix(to, "/memfd:"+nodemem.Name) {
			continue
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		b, err := unix.Mmap(int(f.Fd()), at, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		word := (*atomic.Uint32)(unsafe.Pointer(&b[words+8*rank]))
		for os.Getenv("BANYAN_EXITS") == "off" && word.Load()&asks == 0 { // the watcher has not asked yet
			runtime.Gosched()
		}
		word.And(^uint32(asks))
		return unix.Munmap(b)
	}
	return errors.New("the process has no place in the memory of the node")
}

// A polling rank learns of a death although its watcher learns nothing, in every kind of wait, with
// and without a record by the kernel.
func TestPollingRankFindsDeath(t *testing.T) {
	records := map[string]launch.OpenExits{"": nil}
	if ok, why := hook.Available(); ok {
		records[", recorded"] = func() (launch.Exits, error) { return hook.Open() }
	} else {
		require.Equal(t, "1", os.Getenv("BANYAN_NO_BPF"), "%s\n(BANYAN_NO_BPF=1 leaves the record out)", why)
	}
	for name, record := range records {
		for _, end := range []string{"kill", "exec"} {
			for _, wait := range []string{"named", "any", "barrier"} {
				t.Run(wait+", "+end+name, func(t *testing.T) { pollForDeath(t, wait, end, record) })
			}
		}
	}
}

func pollForDeath(t *testing.T, wait, end string, record launch.OpenExits) {
	exe, err := os.Executable()
	require.NoError(t, err)
	env := append(os.Environ(), ranktest.RoleEnv+"=polls", waitEnv+"="+wait, endEnv+"="+end,
		"BANYAN_FABRIC=shm", "BANYAN_DETECT=off", fmt.Sprintf("BANYAN_WAIT_SPINS=%d", math.MaxInt32))
	var out bytes.Buffer
	res, err := launch.Run(t.Context(), launch.Spec{
		N: 3, Argv: []string{exe}, Env: env, Stdout: io.Discard, Stderr: &out, Exits: record,
	})
	require.NoError(t, err)
	require.Len(t, res.Ends, 3)
	for _, e := range res.Ends {
		require.Equal(t, e.Rank == 2, e.Failed(), "%v\n%s", e, out.String())
	}
}
