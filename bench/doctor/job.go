package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/fabric/route"
)

// link is how a rank reaches another.
type link struct {
	Fabric string
	Why    string // of fabrics that are not shared memory, or of a failure
	Detail string // of sockets: addresses and interface
}

// rankReport is what a rank reports to rank 0.
type rankReport struct {
	Links     []link
	Counters  banyan.Counters
	Detection banyan.Detection
}

// none stands in the table where a rank does not reach another.
const none = "none"

// answerTime is how long a rank may take to answer another in [Job].
const answerTime = 30 * time.Second

// Job has all ranks send to all, and rank 0 print by which fabric they reach each other, and why.
// There separated is the error of a job in which a rank does not reach another.
func Job(w *banyan.World, out io.Writer) (separated, err error) {
	c := w.Comm()
	mine := rankReport{Links: probe(w), Counters: w.Counters(), Detection: w.Detection()}
	// A rank that rank 0 does not reach is not asked: it cannot answer.
	if c.Rank() != 0 {
		if mine.Links[0].Fabric == none {
			return nil, nil
		}
		return nil, banyan.SendValue(c, mine, 0, 2)
	}
	all, links := make([]*rankReport, c.Size()), make([][]link, c.Size())
	for rank := range all {
		r := mine
		switch {
		case rank > 0 && mine.Links[rank].Fabric == none:
			continue
		case rank > 0:
			if r, _, err = banyan.RecvValue[rankReport](c, rank, 2); err != nil {
				return nil, err
			}
		}
		all[rank], links[rank] = &r, r.Links
	}
	if err := table.Printf(out, "%s%s%s", routesTable(links, w.Node), sockets(all), deaths(all, w.Node)); err != nil {
		return nil, err
	}
	cut := 0
	for i, row := range links {
		for j, l := range row {
			if i != j && l.Fabric == none {
				cut++
			}
		}
	}
	if cut == 0 {
		return nil, nil
	}
	return fmt.Errorf("doctor: %s without fabric: the reasons are above", counted(cut, "way")), nil
}

// probe exchanges a message with every rank and returns by which fabrics.
func probe(w *banyan.World) []link {
	c := w.Comm()
	mine := make([]link, c.Size())
	sent := make([]banyan.Request, c.Size())
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	names := interfaces()
	var hello [1]byte
	for i := range mine {
		rank := (c.Rank() + i) % c.Size() // not all to one at once
		if _, err := w.Route(rank); err != nil {
			mine[rank] = link{Fabric: none, Why: err.Error()}
			continue
		}
		sent[rank] = c.Isend(hello[:], rank, 1)
	}
	for rank := range mine {
		if mine[rank].Fabric == none {
			continue
		}
		_, err := c.WithContext(ctx).Recv(make([]byte, 1), rank, 1)
		if err == nil {
			_, err = sent[rank].WithContext(ctx).Wait()
		}
		r, lost := w.Route(rank)
		if err = cmp.Or(err, lost); err != nil {
			mine[rank] = link{Fabric: none, Why: fmt.Sprintf("by %v: %v", r, err)}
			continue
		}
		mine[rank] = link{r.Fabric, strings.Join(append(r.WhyNot, r.Fabric+": "+r.Why), "; "), details(r, names)}
	}
	return mine
}

// details describes the connection of a route: addresses and, for TCP, the interface of this end;
// "" for shared memory.
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

// interfaces are the names of the interfaces by their addresses; nil if they are unknown.
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
