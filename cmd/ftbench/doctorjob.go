package main

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

// reached is what a rank says of its way to another.
type reached struct {
	Fabric string
	Why    string // of fabrics that are not shared memory, or of what failed
	Detail string // of sockets: addresses and interface
}

// none stands in the table where a rank does not reach another.
const none = "none"

// answerTime is how long a rank may take to answer another in showRoutes.
const answerTime = 30 * time.Second

// showRoutes has all ranks send to all and prints the table on rank 0. There it
// returns the rows.
func showRoutes(w *banyan.World, out io.Writer) ([][]reached, error) {
	c := w.Comm()
	mine := told{Reached: greet(w)}
	mine.Counters, mine.Detection = w.Counters(), w.Detection()
	// A rank that rank 0 does not reach is not asked: it cannot answer.
	if c.Rank() != 0 {
		if mine.Reached[0].Fabric == none {
			return nil, nil
		}
		return nil, banyan.SendValue(c, mine, 0, 2)
	}
	all := make([]*told, c.Size())
	all[0] = &mine
	for rank := 1; rank < c.Size(); rank++ {
		if mine.Reached[rank].Fabric == none {
			continue
		}
		t, _, err := banyan.RecvValue[told](c, rank, 2)
		if err != nil {
			return nil, err
		}
		all[rank] = &t
	}
	rows := rowsOf(all)
	_, err := io.WriteString(out, routesTable(rows, w.Node)+sockets(all)+deaths(all, w.Node))
	return rows, err
}

// separated is the error of rows in which a rank does not reach another. Those that
// could not be asked are among them: rank 0 does not reach them.
func separated(rows [][]reached) error {
	cut := 0
	for i, row := range rows {
		for j, r := range row {
			if i != j && r.Fabric == none {
				cut++
			}
		}
	}
	if cut == 0 {
		return nil
	}
	return fmt.Errorf("doctor: %s without fabric: the reasons are above", counted(cut, "way"))
}

// greet sends to every rank and receives from it, and says by what.
func greet(w *banyan.World) []reached {
	c := w.Comm()
	mine := make([]reached, c.Size())
	sent := make([]banyan.Request, c.Size())
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	names := interfaces()
	var hello [1]byte
	for i := range mine {
		rank := (c.Rank() + i) % c.Size() // not all to one at once
		if _, err := w.Route(rank); err != nil {
			mine[rank] = reached{Fabric: none, Why: err.Error()}
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
			mine[rank] = reached{Fabric: none, Why: fmt.Sprintf("by %v: %v", r, err)}
			continue
		}
		mine[rank] = reached{r.Fabric, strings.Join(append(r.WhyNot, r.Fabric+": "+r.Why), "; "), details(r, names)}
	}
	return mine
}

// widest is the number of ranks up to which each pair has its place in the table.
const widest = 32

// routesTable shows who reaches whom by what, and under it why by nothing faster.
// all[i][j] is what rank i says of rank j; all[i] is nil where rank i could not be
// asked.
func routesTable(all [][]reached, node func(int) int) string {
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
func unasked(all [][]reached) string {
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

func cell(row []reached, i, j int) string {
	switch {
	case i == j:
		return "-"
	case row == nil:
		return "?"
	}
	return row[j].Fabric
}

// reasons counts the pairs by fabric and kind of reason, the most frequent first,
// each with the reason of one pair; shared memory needs none.
func reasons(all [][]reached) string {
	type group struct {
		reached
		pairs [][2]int
	}
	var groups []*group
	find := func(r reached) *group {
		r.Detail = "" // each pair's is another
		if r.Fabric == route.Shm.String() {
			r.Why = ""
		}
		for _, g := range groups {
			if g.Fabric == r.Fabric && kind(g.Why) == kind(r.Why) {
				return g
			}
		}
		groups = append(groups, &group{reached: r})
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

// kind is a reason without what differs from pair to pair: the numbers of ranks
// and, in parentheses, what was compared.
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
