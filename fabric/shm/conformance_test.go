package shm_test

import (
	"os"
	"testing"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/fabrictest"
	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/internal/affinity"
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
	p, err := shm.Open(cfg)
	if err != nil {
		return nil, nil, err
	}
	return p, host.New(host.Config{Bell: p.Bell(), Shared: n > cores}), nil
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
