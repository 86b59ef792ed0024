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
	"github.com/banyan-hpc/banyan/internal/settings"
)

// link is how a rank reaches another.
type link struct {
	Fabric string `json:"fabric"`
	Why    string `json:"why,omitempty"`    // of fabrics that are not shared memory, or of a failure
	Detail string `json:"detail,omitempty"` // of sockets: addresses and interface
}

// rankReport is a rank's report to rank 0.
type rankReport struct {
	Links     []link
	Counters  banyan.Counters
	Detection banyan.Detection
}

// none is the entry of the table if a rank does not reach another.
const none = "none"

// answerTime bounds how long a rank may take to answer another in [Job].
const answerTime = 30 * time.Second

// RankFound is a rank's report about its job.
type RankFound struct {
	Rank int `json:"rank"`
	Node int `json:"node"`
	// Links is how it reaches each rank, by rank. It and the rest are missing where rank 0 does not
	// reach the rank.
	Links     []link            `json:"links,omitempty"`
	Counters  *banyan.Counters  `json:"counters,omitempty"`
	Detection *banyan.Detection `json:"detection,omitempty"`
}

// JobFound is the report on a job.
type JobFound struct {
	Ranks []RankFound `json:"ranks"`
	// Separated is the number of ways from a rank to another without a fabric.
	Separated int `json:"separated"`
}

// Err is the error of a job in which a rank does not reach another. f may be nil.
func (f *JobFound) Err() error {
	if f == nil || f.Separated == 0 {
		return nil
	}
	return fmt.Errorf("doctor: %s without fabric: the reasons are above", counted(f.Separated, "way"))
}

// Job has all ranks send to all, and rank 0 print by which fabric they reach each other, and why.
// There it returns the same.
func Job(w *banyan.World, out io.Writer) (found *JobFound, err error) {
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
	err = table.Printf(out, "%s%s%s", routesTable(links, w.Node), sockets(all), deaths(all, w.Node))
	return foundOf(all, w.Node), err
}

// foundOf is the report; all[i] is nil where rank i could not be asked.
func foundOf(all []*rankReport, node func(int) int) *JobFound {
	found := &JobFound{}
	for rank, r := range all {
		f := RankFound{Rank: rank, Node: node(rank)}
		if r != nil {
			f.Links, f.Counters, f.Detection = r.Links, &r.Counters, &r.Detection
		}
		found.Ranks = append(found.Ranks, f)
		for j, l := range f.Links {
			if rank != j && l.Fabric == none {
				found.Separated++
			}
		}
	}
	return found
}

// probe exchanges a message with every rank and returns by which fabrics.
func probe(w *banyan.World) []link {
	c := w.Comm()
	mine := make([]link, c.Size())
	sent, received := make([]banyan.Request, c.Size()), make([]banyan.Request, c.Size())
	ctx, cancel := context.WithTimeout(context.Background(), patience())
	defer cancel()
	names := interfaces()
	var hello [1]byte
	for i := range mine {
		rank := (c.Rank() + i) % c.Size() // not all to one at once
		if _, err := w.Route(rank); err != nil {
			mine[rank] = link{Fabric: none, Why: err.Error()}
			continue
		}
		received[rank] = c.Irecv(make([]byte, 1), rank, 1) // of all peers before any wait: one may take long
		sent[rank] = c.Isend(hello[:], rank, 1)
	}
	for rank := range mine {
		if mine[rank].Fabric == none {
			continue
		}
		_, err := received[rank].WithContext(ctx).Wait()
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

// patience is how long a rank waits for the answers of the others. It is shorter than sockets try to
// make a connection: a rank that has given another one up, or was given up, may end before the report.
func patience() time.Duration {
	s, err := settings.Load(settings.Here())
	if err != nil { // a world has read the settings before
		return answerTime
	}
	heal := time.Duration(s.Int(settings.TCPHeal)) * time.Millisecond
	return min(answerTime, heal/2)
}

// details describes the connection of a route: addresses and, for TCP, the interface of this end;
// "" for shared memory.
func details(r banyan.Route, interfaces map[netip.Addr]string) string {
	switch r.Fabric {
	case route.Unix.String(), route.Verbs.String():
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
