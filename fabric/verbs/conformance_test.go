//go:build cgo

package verbs_test

import (
	"os"
	"testing"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/fabrictest"
	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/fabric/verbs"
	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// steady is a time-out for processes that others slow down: the suite has no path that fails. A rank has a sixth of detect.timeout.
const steady = 5 * time.Second

// variantVariable names the configuration for the processes of a job.
const variantVariable = "BANYAN_VERBS_VARIANT"

// variants: frames begin over the sockets and go on over the lane; all go over the lane.
var variants = map[string]verbs.Config{"both": {}, "lane": {Wait: true}}

func TestMain(m *testing.M) {
	if port, err := verbs.Choose("", nil); err == nil && port.Kind == verbs.IWARP {
		// librdmacm keeps an adapter open that has been used once: it is not what the suite finds left behind.
		if p, _, err := open(0, 1); err == nil {
			_ = p.Close()
		}
	}
	fabrictest.Main(m, open)
}

func open(id proc.ID, n int) (fabric.Provider, fabric.Host, error) {
	port, err := verbs.Choose("", nil)
	if err != nil {
		return nil, nil, err
	}
	cores, err := affinity.Usable()
	if err != nil {
		return nil, nil, err
	}
	h := host.New(host.Config{Shared: n > cores})
	cfg := variants[os.Getenv(variantVariable)]
	cfg.Ports, cfg.Timeout = []verbs.Port{port}, steady
	cfg.Sockets = tcp.Config{
		Self: id, MaxProcs: n, Secret: []byte("sixteen bytes or more"), Ring: h.Ring, Inet: true, Shared: n > cores,
		Linger: 2 * time.Second, // one case waits for it
	}
	p, err := verbs.Open(cfg)
	if err != nil {
		return nil, nil, err
	}
	return p, h, nil
}

func TestConformance(t *testing.T) {
	if _, err := os.Stat("/sys/class/infiniband"); err != nil {
		t.Log("NOT TESTED: no adapter here: make test-verbs has a virtual machine with one")
		return
	}
	b := fabrictest.Budget{Attentive: true, Kills: 10, Wakeups: 1000, Rounds: 5}
	if testing.Short() {
		b = fabrictest.Budget{Attentive: true, Kills: 3, Wakeups: 300, Rounds: 3}
	}
	for name := range variants {
		t.Run(name, func(t *testing.T) {
			t.Setenv(variantVariable, name)
			fabrictest.Run(t, fabrictest.NewReal(), b)
		})
	}
}
