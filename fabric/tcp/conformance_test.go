package tcp_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/fabrictest"
	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// variantVar names the configuration for the processes of a job.
const variantVariable = "BANYAN_TCP_VARIANT"

var variants = map[string]tcp.Config{
	"loopback": {Inet: true},
	"unix":     {Unix: true},
	"tiny":     {Inet: true, Outbox: 128 << 10}, // laps, and waits for credit, all the time
	"ipv6":     {Inet: true, Networks: []string{"::1"}},
	// In namespaces of their own; see hosts_test.go.
	"apart4":      {Inet: true, Networks: []string{"10.224.0.0/11"}},
	"apart6":      {Inet: true, Networks: []string{"fd62:616e:7961::/48"}},
	"apart4brief": {Inet: true, Networks: []string{"10.224.0.0/11"}, Heal: time.Second},
}

func TestMain(m *testing.M) {
	if os.Getenv(shortageVariable) != "" {
		fmt.Fprintln(os.Stderr, runWithShortage())
		os.Exit(1)
	}
	fabrictest.Main(m, open)
}

func open(id proc.ID, n int) (fabric.Provider, fabric.Host, error) {
	cfg := variants[os.Getenv(variantVariable)]
	cores, err := affinity.Usable()
	if err != nil {
		return nil, nil, err
	}
	h := host.New(host.Config{Shared: n > cores})
	cfg.Self, cfg.MaxProcs, cfg.Secret, cfg.Ring = id, n, []byte("sixteen bytes or more"), h.Ring
	cfg.Linger = 2 * time.Second // one case waits for it
	p, err := tcp.Open(cfg)
	if err != nil {
		return nil, nil, err
	}
	return p, h, nil
}

func TestConformance(t *testing.T) {
	for name, cases := range map[string][]string{
		"loopback": nil, // all
		"unix": {
			"connect", "connect-garbage", "sizes", "large-stream", "pressure", "wakeups-credit", "closed-connect",
			"depart-full", "close-in-flight", "kill-transfer", "kill-connect", "die-refusing",
		},
		"tiny": {
			"sizes", "unhandled", "large-stream", "pressure", "pressure-both", "pressure-incast", "wakeups-credit",
			"depart-full", "kill-transfer", "die-unpolled",
		},
		"ipv6": {"connect", "sizes", "large-stream", "kill-connect"},
	} {
		if testing.Short() { // the shared state of goroutines is the same in all
			if name != "loopback" {
				continue
			}
			cases = []string{"goroutines", "all-to-all", "connect", "large-stream", "pressure-both", "wakeups-credit", "close-in-flight", "kill-transfer", "die-refusing"}
		}
		t.Run(name, func(t *testing.T) {
			t.Setenv(variantVariable, name)
			if os.Getenv("BANYAN_LONG") != "" {
				cases = nil
			}
			fabrictest.Run(t, fabrictest.NewReal(), budget(name), cases...)
		})
	}
}

// budget gives most time to loopback.
func budget(variant string) fabrictest.Budget {
	switch long := os.Getenv("BANYAN_LONG") != ""; {
	case long && variant != "loopback":
		return fabrictest.Budget{Attentive: true, Kills: 200, Wakeups: 100_000, Rounds: 50}
	case long:
		return fabrictest.Budget{Attentive: true, Kills: 1000, Wakeups: 1_000_000, Rounds: 200}
	case testing.Short():
		return fabrictest.Budget{Attentive: true, Kills: 3, Wakeups: 300, Rounds: 3}
	case variant == "loopback":
		return fabrictest.Budget{Attentive: true, Kills: 6, Wakeups: 3_000, Rounds: 6}
	default:
		return fabrictest.Budget{Attentive: true, Kills: 3, Wakeups: 1_000, Rounds: 3}
	}
}
