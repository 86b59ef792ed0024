package hook

import (
	"encoding/binary"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
)

// BenchmarkKill is the time from kill(2) to Ended, of a shell and of Go programs with so many
// megabytes. The observer is the killer, and the dying are woken on its processor too; "recorded"
// is the time of the kernel's part.
func BenchmarkKill(b *testing.B) {
	for _, megabytes := range []int{0, 10, 512} {
		for _, polled := range []bool{true, false} {
			name := map[bool]string{true: "polled", false: "epoll"}[polled]
			b.Run(fmt.Sprintf("%s/%dMB", name, megabytes), func(b *testing.B) { benchKill(b, megabytes, polled) })
		}
	}
}

func benchKill(b *testing.B, megabytes int, polled bool) {
	h, tab := opened(b, lacks{})
	if h == nil {
		return
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	require.NoError(b, err)
	defer unix.Close(epoll)
	require.NoError(b, unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, tab.FD(), &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took, recorded []time.Duration
	for b.Loop() {
		cmd := exec.Command("/bin/sh", "-c", "echo thin; read x")
		if megabytes > 0 {
			cmd = fat(megabytes)
		}
		a := registered(b, h, cmd)
		a.line(b) // it is up, and about to sleep
		pid := a.pid()
		_, _ = tab.Ended(pid)
		var at unix.Timespec
		require.NoError(b, unix.ClockGettime(unix.CLOCK_MONOTONIC, &at))
		from := time.Now()
		require.NoError(b, unix.Kill(pid, unix.SIGKILL))
		if polled {
			for ended := false; !ended; _, ended = tab.Ended(pid) {
			}
		} else {
			_, err = sleep(epoll, tab, pid)
		}
		took = append(took, time.Since(from))
		require.NoError(b, err)
		recorded = append(recorded, time.Duration(lastTime(b, h)-uint64(at.Nano())))
		require.NoError(b, h.Forget(pid))
		_ = a.Wait()
	}
	for what, all := range map[string][]time.Duration{"": took, "recorded-": recorded} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Nanoseconds())/1e3, what+"p50-µs")
		b.ReportMetric(float64(all[len(all)*99/100].Nanoseconds())/1e3, what+"p99-µs")
	}
}

// lastTime is that of the newest entry in the log.
func lastTime(b *testing.B, h *Hook) uint64 {
	b.Helper()
	value, err := h.log.LookupBytes(uint32(0))
	require.NoError(b, err)
	i := (binary.NativeEndian.Uint64(value[exits.HeadAt:]) - 1) % exits.Entries
	return binary.NativeEndian.Uint64(value[exits.EntriesAt+i*exits.EntrySize+exits.TimeAt:])
}

// BenchmarkStranger is the cost of the programs at the exit of an unregistered thread or process,
// and at a signal that is not fatal.
func BenchmarkStranger(b *testing.B) {
	h, _ := opened(b, lacks{})
	if h == nil {
		return
	}
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	require.NoError(b, err)
	defer stats.Close()
	for b.Loop() {
		require.NoError(b, exec.Command("/bin/true").Run())
	}
	got, err := h.exits.program.Stats()
	require.NoError(b, err)
	b.ReportMetric(float64(got.Runtime.Nanoseconds())/float64(got.RunCount), "ns/exit")
	got, err = h.signals.program.Stats()
	require.NoError(b, err)
	b.ReportMetric(float64(got.Runtime.Nanoseconds())/float64(got.RunCount), "ns/signal")
}

// BenchmarkEnded is the question while nothing happens.
func BenchmarkEnded(b *testing.B) {
	h, tab := opened(b, lacks{})
	if h == nil {
		return
	}
	a := registered(b, h, shell("exit 3"))
	b.ReportAllocs()
	for b.Loop() {
		tab.Ended(a.pid())
	}
}
