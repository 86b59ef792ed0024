package tcp_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric/fabrictest"
	"github.com/banyan-hpc/banyan/internal/netns"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// mostProcs is the largest number of processes in a case of the suite.
const mostProcs = 8

// separateHosts makes a driver each of whose processes is on a host of its own. Without the
// privileges the test fails, or gets nil if the user has permitted that.
func separateHosts(t *testing.T, cfg netns.Config) (*fabrictest.Real, *netns.Net) {
	t.Helper()
	const without = "BANYAN_NO_NETNS"
	if err := netns.Check(); err != nil {
		if os.Getenv(without) != "1" {
			t.Fatalf("%v\n(%s=1 leaves these tests out)", err, without)
		}
		fmt.Fprintf(os.Stderr, "NOT TESTED: %s: %s=1 and %v\n", t.Name(), without, err)
		return nil, nil
	}
	cfg.Prefix = "banyantcp"
	n, err := netns.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	d := fabrictest.NewReal()
	d.Start = func(id proc.ID, cmd *exec.Cmd) error { return n.Start(int(id), cmd) }
	return d, n
}

// TestConformanceBetweenHosts runs between hosts, over links with short, usual and long packets.
func TestConformanceBetweenHosts(t *testing.T) {
	few := fabrictest.Budget{Attentive: true, Kills: 3, Wakeups: 500, Rounds: 3}
	long := os.Getenv("BANYAN_LONG") != ""
	if long {
		few = fabrictest.Budget{Attentive: true, Kills: 100, Wakeups: 20_000, Rounds: 30}
	}
	links := []struct {
		mtu     int
		variant string
	}{{1500, "apart4"}, {1280, "apart6"}, {9000, "apart4"}, {1500, "apart6"}, {1280, "apart4"}, {9000, "apart6"}}
	for i, at := range links[:scaled(len(links), 1)] {
		t.Run(fmt.Sprint(at.variant, " ", at.mtu), func(t *testing.T) {
			t.Setenv(variantVariable, at.variant)
			d, _ := separateHosts(t, netns.Config{Hosts: mostProcs, MTU: at.mtu, IPv6: true})
			switch {
			case d == nil:
			case long:
				fabrictest.Run(t, d, few)
			case i == 0 && !testing.Short():
				fabrictest.Run(t, d, few, "connect", "sizes", "all-to-all", "large-stream", "pressure",
					"wakeups-credit", "depart", "depart-full", "depart-unmet", "close-in-flight", "exit",
					"kill-transfer", "kill-connect", "die-refusing", "invalidate", "informed")
			default:
				fabrictest.Run(t, d, few, "sizes", "large-stream", "depart-full")
			}
		})
	}
}

// scaled is the usual number, or that for -short.
func scaled(usual, short int) int {
	if testing.Short() {
		return short
	}
	return usual
}

// faultInjector breaks the links between the hosts, and restores them, until it is stopped.
type faultInjector struct {
	*netns.Net
	rng    *rand.Rand
	killed int
}

func (d *faultInjector) act() error {
	a := d.rng.IntN(d.Hosts())
	b := (a + 1 + d.rng.IntN(d.Hosts()-1)) % d.Hosts()
	switch d.rng.IntN(12) {
	case 0:
		return errors.Join(d.LinkDown(a), d.wait(20), d.Heal())
	case 1:
		return errors.Join(d.Cut(a, b), d.wait(20), d.kill(a), d.Heal())
	case 2:
		return errors.Join(d.CutOneWay(a, b), d.kill(a), d.wait(20), d.kill(b), d.Heal())
	case 3:
		return errors.Join(d.kill(a), d.kill(b))
	}
	return d.kill(a)
}

func (d *faultInjector) kill(host int) error {
	n, err := d.KillConnections(host)
	d.killed += n
	return err
}

// wait gives the processes some milliseconds.
func (d *faultInjector) wait(ms int) error {
	<-time.After(time.Duration(d.rng.IntN(ms)+1) * time.Millisecond)
	return nil
}

// Processes on different hosts do not notice that their connections and links are broken all the
// time.
func TestFaultsBetweenHosts(t *testing.T) {
	t.Setenv(variantVariable, "apart4")
	d, n := separateHosts(t, netns.Config{Hosts: mostProcs})
	if d == nil {
		return
	}
	killed := 0
	d.Meanwhile = func(seed uint64, done <-chan struct{}) error {
		dis := faultInjector{Net: n, rng: rand.New(rand.NewPCG(seed, 1))}
		defer func() { killed += dis.killed }()
		for {
			select {
			case <-done:
				return n.Heal()
			default:
			}
			if err := errors.Join(dis.act(), dis.wait(30)); err != nil {
				return err
			}
		}
	}
	rounds, least := scaled(2, 1), scaled(20, 8)
	if os.Getenv("BANYAN_LONG") != "" {
		rounds = 100
	}
	// A fast machine ends before many faults: then the test goes on.
	for round := 0; round < rounds || killed < least*rounds; round++ {
		require.Less(t, round, 20*rounds, "only %d connections were broken", killed)
		fabrictest.Run(t, d, fabrictest.Budget{Attentive: true, Wakeups: scaled(500, 100), Rounds: scaled(2, 1)},
			"sizes", "sizes-asleep", "all-to-all", "large-stream", "wakeups-credit", "goroutines", "depart-in-flight")
	}
}
