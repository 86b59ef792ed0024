package job

import (
	"fmt"
	"os"
	"strings"

	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/tcp"
)

// networksCure is what chooses networks.
const networksCure = networksVariable + ", --networks, WithNetworks"

// enclosed says why a rank that chooses these networks is reached from its own network
// namespace only; "" if it is not.
func enclosed(networks []string) string {
	choices, err := tcp.Choose(networks)
	if err != nil {
		return "" // opening the sockets tells of it
	}
	var inside, spare []string
	for _, c := range choices {
		at := c.Interface + " " + c.Addr.String()
		switch {
		case c.Addr.IsLoopback():
			inside = append(inside, at)
		case c.Used:
			return ""
		default:
			spare = append(spare, at)
		}
	}
	if len(spare) == 0 {
		return fmt.Sprintf("no interface is up but loopback (%s): bring one up there that joins the machines", strings.Join(inside, ", "))
	}
	return fmt.Sprintf("its networks are %s (%s), which leaves out %s: name what joins the machines, or no networks",
		strings.Join(networks, ","), networksCure, strings.Join(spare, ", "))
}

// unreachable says why this rank cannot connect to one that may use TCP as this one may;
// "" if it can.
func (l *launched) unreachable(rank int, c *route.Card) string {
	if c.Enclosed == "" || l.self.Node.SameNet(&c.Node) {
		return ""
	}
	return fmt.Sprintf("not tcp: rank %d is reached from its own machine only: %s", rank, c.Enclosed)
}

// unneeded tells, once a node, of networks that are none here, where nobody opens
// sockets and would notice. That is no error: one environment may serve for machines with a
// fast network and for those that need none.
func (l *launched) unneeded(o *Options) {
	networks := o.listed(os.Getenv)
	if networks == nil || l.Size() == 1 || !l.self.Allowed.Has(route.TCP) || !first(l.launcher) {
		return
	}
	_, err := tcp.Choose(networks)
	if err == nil {
		return
	}
	l.Warn(fmt.Sprintf("%v: correct the networks (%s); all ranks share memory, so this job goes on without", err, networksCure))
}
