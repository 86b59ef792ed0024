package doctor

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/route"
)

// rankReport is what a rank reports to rank 0.
type rankReport struct {
	Links     []link
	Counters  banyan.Counters
	Detection banyan.Detection
}

// details says what the connection of a route is: addresses and, for TCP, the interface that has
// this end's; "" for shared memory.
func details(r banyan.Route, interfaces map[netip.Addr]string) string {
	switch r.Fabric {
	case route.Unix.String():
		return r.Detail
	case route.TCP.String():
	default:
		return ""
	}
	words := strings.Fields(r.Detail) // tcp HERE > THERE
	if len(words) < 2 {
		return r.Detail
	}
	here, err := netip.ParseAddrPort(words[1])
	if err != nil {
		return r.Detail
	}
	return r.Detail + ", " + cmp.Or(interfaces[here.Addr().WithZone("")], "an interface that has gone")
}

// interfaces are the names of this process's by their addresses; nil if the system does not say.
func interfaces() map[netip.Addr]string {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	names := make(map[netip.Addr]string)
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				names[p.Addr()] = i.Name
			}
		}
	}
	return names
}

// socketLines bounds how many pairs are listed one by one.
const socketLines = 28

// sockets lists the pairs that are joined by sockets, with their addresses, and what all ranks have
// counted; "" where there is none. all[i] is nil where rank i could not be asked.
func sockets(all []*rankReport) string {
	var lines []string
	pairs := 0
	var sum banyan.Counters
	var noted []string
	for i, t := range all {
		if t == nil {
			continue
		}
		for j, r := range t.Links {
			if r.Detail == "" || i > j && all[j] != nil { // the other end is in the list
				continue
			}
			if pairs++; pairs <= socketLines {
				lines = append(lines, fmt.Sprintf("%6d > %d: %s\n", i, j, r.Detail))
			}
		}
		sum = sum.Plus(t.Counters)
		if t.Counters.Healed+t.Counters.Refused.Total() > 0 {
			noted = append(noted, fmt.Sprintf("rank %d: %v\n", i, t.Counters))
		}
	}
	if pairs == 0 {
		return ""
	}
	if pairs > socketLines {
		lines = append(lines, fmt.Sprintf("%6s and %s more\n", "…", counted(pairs-socketLines, "pair")))
	}
	out := "# sockets\n" + strings.Join(lines, "") + fmt.Sprintf("connections: %v\n", sum)
	return out + strings.Join(noted[:min(len(noted), socketLines)], "")
}
