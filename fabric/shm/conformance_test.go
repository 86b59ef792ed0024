package shm_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/fabrictest"
	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/internal/nodemem"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// variantVar names the configuration for the processes of a job.
const variantVariable = "BANYAN_SHM_VARIANT"

// variants are the configurations that move bytes differently, and the cases that the difference
// concerns; none: all cases.
var variants = map[string]struct {
	cfg   shm.Config
	cases []string
}{
	"default": {},
	// Laps, and waits for credit, all the time.
	"tiny": {shm.Config{Lines: 64, BulkBytes: 16 << 10}, []string{
		"sizes", "all-to-all", "unhandled", "large-stream", "pressure", "pressure-both", "pressure-incast",
		"wakeups-credit", "depart-full", "kill-transfer", "die-unpolled", "die-refusing",
	}},
	"streamed": {shm.Config{NoGet: true}, []string{"large-stream", "large-get", "kill-get"}},
	"file": {shm.Config{Dir: "/dev/shm"}, []string{
		"connect", "connect-garbage", "sizes", "closed-connect", "kill-connect", "die-before-connect",
	}},
}

func TestMain(m *testing.M) {
	shm.VictimMain()
	fabrictest.Main(m, open)
}

func open(id proc.ID, n int) (fabric.Provider, fabric.Host, error) {
	cfg := variants[os.Getenv(variantVariable)].cfg
	cfg.Self, cfg.MaxProcs = id, n
	cores, err := affinity.Usable()
	if err != nil {
		return nil, nil, err
	}
	if name := os.Getenv(nodeVariable); name != "" && id%4 != 3 { // some have no place
		if cfg.Node, err = placeIn(name, n); err != nil {
			return nil, nil, err
		}
	}
	p, err := shm.Open(cfg)
	if err != nil {
		return nil, nil, err
	}
	return p, host.New(host.Config{Bell: p.Bell(), Shared: n > cores}), nil
}

// nodeVariable names the file of a node's memory for the processes of a job.
const nodeVariable = "BANYAN_SHM_NODE"

// placeIn opens such a file and takes the next place in it; its first word counts the taken places.
func placeIn(name string, n int) (p nodemem.Place, err error) {
	if p.FD, err = unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return p, err
	}
	first, err := unix.Mmap(p.FD, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return p, err
	}
	taken := (*atomic.Int64)(unsafe.Pointer(&first[0]))
	span := nodemem.Head(n) + nodemem.Pages(n)
	p.Head, p.Bytes = int64(os.Getpagesize())+taken.Add(span)-span, nodeBytes
	p.Pages = p.Head + nodemem.Head(n)
	return p, unix.Munmap(first)
}

const nodeBytes = 8 << 30

// Segments have their beginnings in memory of the node, all but some.
func TestConformanceInNode(t *testing.T) {
	fd, err := unix.MemfdCreate(nodemem.Name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Ftruncate(fd, nodeBytes))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, nodemem.Seals)
	require.NoError(t, err)
	t.Setenv(nodeVariable, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd))
	t.Setenv(variantVariable, "default")
	fabrictest.Run(t, fabrictest.NewReal(), budget("node"))
}

func TestConformance(t *testing.T) {
	for name, v := range variants {
		if testing.Short() && name != "default" { // goroutines share the same in all
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Setenv(variantVariable, name)
			if os.Getenv("BANYAN_LONG") != "" {
				v.cases = nil
			}
			fabrictest.Run(t, fabrictest.NewReal(), budget(name), v.cases...)
		})
	}
}

// budget gives most time to the default configuration.
func budget(variant string) fabrictest.Budget {
	switch long := os.Getenv("BANYAN_LONG") != ""; {
	case long && variant != "default":
		return fabrictest.Budget{Kills: 200, Wakeups: 100_000, Rounds: 50}
	case long:
		return fabrictest.Budget{Kills: 1000, Wakeups: 10_000_000, Rounds: 200}
	case testing.Short():
		return fabrictest.Budget{Kills: 3, Wakeups: 300, Rounds: 3}
	case variant == "default":
		return fabrictest.Budget{Kills: 8, Wakeups: 5_000, Rounds: 8}
	default:
		return fabrictest.Budget{Kills: 4, Wakeups: 2_000, Rounds: 5}
	}
}
