package job

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/tcp"
)

// networksCure names the ways to choose networks.
const networksCure = networksVariable + ", --networks, WithNetworks"

// enclosed explains why a rank that chooses these networks is reachable only within its own network
// namespace; "" if it is reachable from outside.
func enclosed(networks []string) string {
	choices, err := tcp.Choose(networks)
	if err != nil {
		return "" // opening the sockets reports it
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
		return fmt.Sprintf("no interface is up but loopback (%s): bring one up there that joins the machines",
			strings.Join(inside, ", "))
	}
	return fmt.Sprintf("its networks are %s (%s), which leaves out %s: name one that joins the machines, or no networks",
		strings.Join(networks, ","), networksCure, strings.Join(spare, ", "))
}

// lateNetworks bounds how long Init waits for an interface. A container's network often comes up a
// moment after its first process.
const lateNetworks = 5 * time.Second

// awaitNetworks waits for an interface if other ranks are reached by one. Ranks in one network
// namespace need only loopback.
func (l *launched) awaitNetworks(ctx context.Context, networks []string) error {
	if !tcp.Late(networks) || !l.inOtherNamespaces(ctx) {
		return nil
	}
	if first(l.launcher) { // of its node
		l.warnf("no interface is up that joins the machines: waiting up to %v for one", lateNetworks)
	}
	return tcp.AwaitNetworks(ctx, networks, lateNetworks)
}

// inOtherNamespaces reports whether some rank has another network namespace.
func (l *launched) inOtherNamespaces(ctx context.Context) bool {
	seen := map[int]bool{l.nodes.Node(l.Rank()): true}
	for rank := range l.Size() {
		node := l.nodes.Node(rank)
		if seen[node] {
			continue
		}
		seen[node] = true
		if c, err := l.fetch(ctx, rank); err == nil && !l.self.Node.SameNet(&c.Node) {
			return true
		}
	}
	return false
}

// unreachable explains why this rank cannot connect to one that may use TCP as this one may; "" if
// it can.
func (l *launched) unreachable(rank int, c *route.Card) string {
	if c.Enclosed == "" || l.self.Node.SameNet(&c.Node) {
		return ""
	}
	return fmt.Sprintf("not tcp: rank %d is reached from its own machine only: %s", rank, c.Enclosed)
}

// unneeded warns, once a node, of networks that do not exist here, where no rank opens sockets and
// would notice. That is no error: one environment may serve machines with a fast network and
// machines that need none.
func (l *launched) unneeded(o *Options) {
	networks := o.listed(os.Getenv)
	if networks == nil || l.Size() == 1 || !l.self.Allowed.Has(route.TCP) || !first(l.launcher) {
		return
	}
	_, err := tcp.Choose(networks)
	if err == nil {
		return
	}
	l.Warn(fmt.Sprintf("%v: correct the networks (%s); all ranks share memory, so this job continues without",
		err, networksCure))
}
