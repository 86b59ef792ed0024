package job

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/fabric/verbs"
)

// adapterVariable names the RDMA adapter to be used, where a machine has several.
const adapterVariable = "BANYAN_VERBS_DEVICE"

// openSockets opens the sockets of this process, with lanes over RDMA beside them if this machine has an adapter. A
// process that may use nothing else must have one.
func (l *launched) openSockets(cfg tcp.Config) (fabric.Provider, error) {
	if !l.self.Allowed.Has(route.Verbs) {
		return opened(tcp.Open(cfg))
	}
	alone := l.self.Allowed&route.Of(route.Unix, route.TCP) == 0
	ports, err := AdapterPorts(cfg.Networks)
	if err == nil {
		var p fabric.Provider
		if p, err = opened(verbs.Open(verbs.Config{
			Sockets: cfg, Ports: ports, Timeout: cfg.Patience, Wait: alone,
		})); err == nil {
			l.self.Adapter = ports[0].String()
			return p, nil
		}
	}
	switch {
	case alone:
		return nil, fmt.Errorf("%w (%s=verbs permits nothing else)", err, fabricVariable)
	case !errors.Is(err, verbs.ErrNone) && l.log != nil:
		l.log.Info("RDMA is not used", "reason", err)
	}
	cfg.Inet = l.self.Allowed.Has(route.TCP)
	return opened(tcp.Open(cfg))
}

// opened makes an interface of a provider; one that holds a nil pointer would not be nil.
func opened[P fabric.Provider](p P, err error) (fabric.Provider, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

// AdapterPorts are the ports of RDMA adapters that a rank of this machine uses with these networks: ports with an
// address that the sockets would use too.
func AdapterPorts(networks []string) ([]verbs.Port, error) {
	choices, err := tcp.Choose(networks)
	if err != nil {
		return nil, err
	}
	return verbs.ChooseAll(os.Getenv(adapterVariable), func(_ string, a netip.Addr) bool {
		return slices.ContainsFunc(choices, func(c tcp.Choice) bool { return c.Used && c.Addr == a })
	})
}
