package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/route"
)

// link is how a rank reaches another.
type link struct {
	Fabric string
	Why    string // of fabrics that are not shared memory, or of a failure
	Detail string // of sockets: addresses and interface
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
	if _, err := io.WriteString(out, routesTable(links, w.Node)+sockets(all)+deaths(all, w.Node)); err != nil {
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
		_, err := c.RecvContext(ctx, make([]byte, 1), rank, 1)
		if err == nil {
			_, err = sent[rank].WaitContext(ctx)
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

// widest is the number of ranks up to which each pair has its place in the table.
const widest = 32

// routesTable shows by which fabrics the ranks reach each other, and below it why not by faster
// ones. all[i] is nil where rank i could not be asked.
func routesTable(all [][]link, node func(int) int) string {
	var b strings.Builder
	n := len(all)
	nodes := 0
	for rank := range n {
		nodes = max(nodes, node(rank)+1)
	}
	fmt.Fprintf(&b, "# %s on %s\n", counted(n, "rank"), counted(nodes, "node"))
	if n <= widest {
		fmt.Fprintf(&b, "%6s %5s ", "rank", "node")
		for j := range n {
			fmt.Fprintf(&b, "%5d", j)
		}
		b.WriteByte('\n')
		for i, row := range all {
			fmt.Fprintf(&b, "%6d %5d ", i, node(i))
			for j := range n {
				fmt.Fprintf(&b, "%5s", cell(row, i, j))
			}
			b.WriteByte('\n')
		}
	}
	b.WriteString(unasked(all))
	b.WriteString(reasons(all))
	return b.String()
}

// unasked names the ranks without a row, "" if there is none.
func unasked(all [][]link) string {
	var names []string
	for rank, row := range all {
		if row == nil {
			names = append(names, strconv.Itoa(rank))
		}
	}
	if names == nil {
		return ""
	}
	if more := len(names) - widest; more > 0 {
		names = append(names[:widest], fmt.Sprintf("and %d more", more))
	}
	return "?: not asked, as rank 0 does not reach it: " + strings.Join(names, ", ") + "\n"
}

func cell(row []link, i, j int) string {
	switch {
	case i == j:
		return "-"
	case row == nil:
		return "?"
	}
	return row[j].Fabric
}

// reasons counts the pairs by fabric and kind of reason, the most frequent first, each with the
// reason of one pair; shared memory needs none.
func reasons(all [][]link) string {
	type group struct {
		link
		pairs [][2]int
	}
	var groups []*group
	find := func(r link) *group {
		r.Detail = "" // each pair's is another
		if r.Fabric == route.Shm.String() {
			r.Why = ""
		}
		for _, g := range groups {
			if g.Fabric == r.Fabric && kind(g.Why) == kind(r.Why) {
				return g
			}
		}
		groups = append(groups, &group{link: r})
		return groups[len(groups)-1]
	}
	for i, row := range all {
		for j := range row {
			if i != j {
				g := find(row[j])
				g.pairs = append(g.pairs, [2]int{i, j})
			}
		}
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return len(b.pairs) - len(a.pairs) })
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "%s: %s", g.Fabric, counted(len(g.pairs), "way"))
		if g.Why != "" {
			fmt.Fprintf(&b, ", as %d > %d: %s", g.pairs[0][0], g.pairs[0][1], g.Why)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// kind is a reason without what differs from pair to pair: the numbers of ranks and, in
// parentheses, what was compared.
func kind(why string) string {
	return particular.ReplaceAllString(why, "")
}

var particular = regexp.MustCompile(` \([^()]*\)|\b(rank|process) \d+`)

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
