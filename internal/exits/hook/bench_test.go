package hook

import (
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkKill is the time from kill(2) to Ended, of a shell and of Go programs
// with so many megabytes.
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
	var took []time.Duration
	for b.Loop() {
		cmd := exec.Command("/bin/sh", "-c", "echo thin; read x")
		if megabytes > 0 {
			cmd = fat(megabytes)
		}
		a := registered(b, h, cmd)
		a.line(b) // it is up, and about to sleep
		pid := a.pid()
		_, _ = tab.Ended(pid)
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
		require.NoError(b, h.Forget(pid))
		_ = a.Wait()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
}

// BenchmarkStranger is what the programs cost at the exit of a thread or process
// that nobody has registered, and at a signal that is not fatal.
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
