package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/fabric/route"
)

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
		t := table.Table{W: &b, Keys: 2, Columns: []table.Column{{Name: "rank", Width: 6}, {Name: "node"}}}
		var rows [][]any
		for i, row := range all {
			t.Columns = append(t.Columns, table.Column{Name: strconv.Itoa(i), Width: 4})
			line := []any{i, node(i)}
			for j := range n {
				line = append(line, cell(row, i, j))
			}
			rows = append(rows, line)
		}
		_ = t.Write(rows) // to a strings.Builder, which takes all
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

// kind is a reason without the parts that differ from pair to pair: the numbers of ranks and, in
// parentheses, the compared values.
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

// socketLines bounds how many pairs are listed one by one.
const socketLines = 28

// sockets lists the pairs that are connected by sockets, with their addresses, and the counters of
// all ranks; "" if there are none. all[i] is nil if rank i did not answer.
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

// deaths shows how the ranks detect each other's deaths; all[i] is nil where rank i could not be
// asked.
func deaths(all []*rankReport, node func(int) int) string {
	var b strings.Builder
	b.WriteString("# failure detection\n")
	b.WriteString(silences(all))
	by := make(map[int][]string) // the evidence of the ranks of each node
	nodes := 0
	for rank, t := range all {
		if t == nil {
			continue
		}
		n := node(rank)
		nodes = max(nodes, n+1)
		if e := t.Detection.Evidence; !slices.Contains(by[n], e) {
			by[n] = append(by[n], e)
		}
	}
	for n := 0; n < nodes; n++ {
		first := n
		for n+1 < nodes && fmt.Sprint(by[n+1]) == fmt.Sprint(by[first]) {
			n++
		}
		if by[first] == nil {
			continue
		}
		name := fmt.Sprintf("node %d", first)
		if n > first {
			name = fmt.Sprintf("nodes %d to %d", first, n)
		}
		fmt.Fprintf(&b, "%s: deaths are told of first by %s\n", name, strings.Join(by[first], ", by other ranks by "))
	}
	if nodes > 1 {
		b.WriteString("between nodes: by connection\n")
	}
	return b.String()
}

// silences shows after which silence a rank counts as dead, and the ranks with other settings.
func silences(all []*rankReport) string {
	var b strings.Builder
	first := all[0].Detection
	switch {
	case !first.On && len(all) == 1:
		b.WriteString("silence: there is no rank to observe\n")
	case !first.On:
		b.WriteString("silence: not detected (detect is off): ranks whose machine is lost are waited for\n")
	default:
		why := ""
		if first.Longer > 1 {
			why = fmt.Sprintf("; %d times the defaults as ranks share cores", first.Longer)
		}
		fmt.Fprintf(&b, "silence: of %v is death (detect.timeout), heartbeats each %v (detect.period%s), partition "+
			"rule %s (detect.partition)\n",
			first.Timeout, first.Period, why, first.Partition)
	}
	for rank, t := range all {
		if t == nil {
			continue
		}
		d := t.Detection
		if d.Evidence = first.Evidence; d != first {
			fmt.Fprintf(&b, "warning: rank %d has other values than rank 0 (on %t, timeout %v, period %v, partition "+
				"%s): all ranks need the same\n",
				rank, d.On, d.Timeout, d.Period, d.Partition)
		}
	}
	return b.String()
}
