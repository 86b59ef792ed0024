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

// variantVar tells the processes of a job which configuration to open.
const variantVar = "BANYAN_SHM_VARIANT"

// variants are the configurations that differ in what moves the bytes.
var variants = map[string]shm.Config{
	"default":  {},
	"tiny":     {Lines: 64, BulkBytes: 16 << 10}, // laps, and waits for credit, all the time
	"streamed": {NoGet: true},
	"file":     {Dir: "/dev/shm"},
}

func TestMain(m *testing.M) {
	shm.VictimMain()
	fabrictest.Main(m, open)
}

func open(id proc.ID, n int) (fabric.Provider, fabric.Host, error) {
	cfg := variants[os.Getenv(variantVar)]
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
	for name := range variants {
		t.Run(name, func(t *testing.T) {
			t.Setenv(variantVar, name)
			fabrictest.Run(t, fabrictest.NewReal(), budget(name))
		})
	}
}

// budget gives the default configuration most of the time.
func budget(variant string) fabrictest.Budget {
	switch long := os.Getenv("BANYAN_LONG") != ""; {
	case long && variant != "default":
		return fabrictest.Budget{Kills: 200, Wakeups: 100_000, Rounds: 50}
	case long:
		return fabrictest.Budget{Kills: 1000, Wakeups: 10_000_000, Rounds: 200}
	case testing.Short():
		return fabrictest.Budget{Kills: 3, Wakeups: 300, Rounds: 3}
	case variant == "default":
		return fabrictest.Budget{Kills: 30, Wakeups: 10_000, Rounds: 10}
	default:
		return fabrictest.Budget{Kills: 8, Wakeups: 2_000, Rounds: 5}
	}
}
