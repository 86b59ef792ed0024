package paper

import (
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/bench/kill"
	"github.com/banyan-hpc/banyan/bench/predict"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// point is a cell among so many ranks, half of them dead.
func (c Cell) point(ranks int) point {
	return point{op: c.Op, bytes: bytesOf(c.Op), design: c.Design, order: c.Order, ranks: ranks, failures: ranks / 2}
}

// table is table 1 or 2, with its rows of differences.
func (b *builder) table(op predict.Op, cells []Cell) Table {
	how := "predicted"
	if op == predict.Barrier {
		how = "predicted (fitted to this table)"
	}
	t := Table{
		Caption: fmt.Sprintf("Table %d: %s, half of the processes dead; time of one operation in µs; measured: "+
			"median (95 %% interval)", tableOf[op], title(op)),
		Head: []string{"design, order", fmt.Sprintf("paper, %d processes", tableRanks),
			fmt.Sprintf("%s, %d processes", how, tableRanks), "predicted against paper",
			fmt.Sprintf("predicted, %d processes", b.n),
			fmt.Sprintf("measured, %d processes on %d CPUs", b.n, b.m.CPUs)},
	}
	for _, c := range cells {
		us := b.p.at(c.point(tableRanks))
		t.Rows = append(t.Rows, []string{designNames[c.Design] + ", " + c.Order.String(),
			fmt.Sprintf("%.1f", c.Printed), fmt.Sprintf("%.1f", us), percent(us, c.Printed),
			number(b.p.at(c.point(b.n))), timeText(b.m.time(c.point(b.n)))})
	}
	for i, o := range allOrders { // the first three cells are rerouted, the others rebalanced
		a, z := cells[i], cells[i+len(allOrders)]
		t.Rows = append(t.Rows, []string{"difference, " + o.String(), fmt.Sprintf("%.1f", a.Printed-z.Printed),
			fmt.Sprintf("%.1f", b.p.at(a.point(tableRanks))-b.p.at(z.point(tableRanks))), "",
			number(b.p.at(a.point(b.n)) - b.p.at(z.point(b.n))), timeText(b.m.beyond(a.point(b.n), z.point(b.n)))})
	}
	return t
}

// claims are how near to each other the paper finds two designs (§4.3, §4.4).
var claims = map[predict.Op]struct{ baseline, lookup string }{
	predict.Barrier: {"within 1 %", "under 1 %"}, predict.Bcast: {"within 0.4 %", "within 0.5 %"},
}

// comparison is a row of ratios: one design's time over another's, in jobs of any size of which a
// part is dead.
type comparison struct {
	name, printed string
	op            predict.Op
	design, base  tree.Design
	order         kill.Order
	dead          bool // half of them
}

// of are its two operations among so many ranks.
func (c comparison) of(ranks int) (k, base point) {
	k = point{op: c.op, bytes: bytesOf(c.op), design: c.design, order: c.order, ranks: ranks}
	if c.dead {
		k.failures = ranks / 2
	}
	base = k
	base.design = c.base
	return k, base
}

// comparisons are those in the text of the paper.
func comparisons(op predict.Op, cells []Cell) []comparison {
	said := claims[op]
	out := []comparison{
		{"no failures, rerouted over fault unaware", said.baseline, op, tree.Reroute, tree.Unaware, kill.Worst, false},
		{"no failures, lookup avoiding over fault unaware", said.baseline, op, tree.LookupAvoiding, tree.Unaware,
			kill.Worst, false},
		{"no failures, rebalanced over fault unaware", said.baseline, op, tree.Rebalance, tree.Unaware, kill.Worst,
			false},
	}
	for i, o := range allOrders {
		printed := ratio(cells[i].Printed / cells[i+len(allOrders)].Printed)
		out = append(out, comparison{"half dead, " + o.String() + ", rerouted over rebalanced", printed, op,
			tree.Reroute, tree.Rebalance, o, true})
	}
	for _, o := range allOrders {
		out = append(out, comparison{"half dead, " + o.String() + ", rebalanced over fault unaware", "within 1 %", op,
			tree.Rebalance, tree.Unaware, o, true})
	}
	return append(out, comparison{"half dead, worst, rerouted over lookup avoiding", said.lookup, op, tree.Reroute,
		tree.LookupAvoiding, kill.Worst, true})
}

// ratios compares designs: rerouted with rebalanced, and those that the paper finds equal.
func (b *builder) ratios(op predict.Op, cells []Cell) Table {
	t := Table{
		Caption: fmt.Sprintf("Ratios of times, %s; measured: median of the ratios of sets in the same turn (95 %% "+
			"interval)", title(op)),
		Head: append([]string{"", "paper, 512 processes", "predicted, 512 processes",
			fmt.Sprintf("predicted, %d processes", b.n)}, b.measuredHeads()...),
	}
	for _, c := range comparisons(op, cells) {
		row := []string{c.name, c.printed}
		for _, n := range []int{tableRanks, b.n} {
			k, base := c.of(n)
			row = append(row, ratio(b.p.at(k)/b.p.at(base)))
		}
		for _, n := range b.columns() {
			row = append(row, ratioText(b.m.over(c.of(n))))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// columns are the numbers of real ranks, each of which has a column.
func (b *builder) columns() []int {
	if ranks := b.m.ranks(); len(ranks) > 0 {
		return ranks
	}
	return []int{b.n}
}

func (b *builder) measuredHeads() (out []string) {
	for _, n := range b.columns() {
		out = append(out, fmt.Sprintf("measured, %d processes", n))
	}
	return out
}

// form is the shape of figures 6 and 9: the worst order, rerouted against rebalanced.
type form struct {
	ranks, begins, peak int     // numbers of failures; begins is 0 where it never does
	highest, last       float64 // rerouted over rebalanced, at the peak and at most failures
	failures            int     // the most
}

// formOf reads a curve; at is rerouted's time and rebalanced's, or nothing.
func formOf(ranks int, at func(failures int) (rerouted, rebalanced float64)) form {
	f := form{ranks: ranks}
	longest := 0.0
	for failures := range ranks {
		a, z := at(failures)
		if a == 0 || z == 0 {
			continue
		}
		if f.begins == 0 && a > 1.1*z {
			f.begins = failures
		}
		if a > longest {
			longest, f.peak, f.highest = a, failures, a/z
		}
		f.last, f.failures = a/z, failures
	}
	return f
}

// predictedForm and measuredForm are those of figure 6 or 9.
func (b *builder) predictedForm(op predict.Op, ranks int) form {
	return formOf(ranks, func(failures int) (float64, float64) {
		k := point{op: op, bytes: bytesOf(op), design: tree.Reroute, ranks: ranks, failures: failures}
		if !slices.Contains(failureCounts, failures) {
			return 0, 0
		}
		z := k
		z.design = tree.Rebalance
		return b.p.at(k), b.p.at(z)
	})
}

func (b *builder) measuredForm(op predict.Op) form {
	return formOf(b.n, func(failures int) (float64, float64) {
		k := point{op: op, bytes: bytesOf(op), design: tree.Reroute, ranks: b.n, failures: failures}
		z := k
		z.design = tree.Rebalance
		return b.m.time(k).Median, b.m.time(z).Median
	})
}

// shape compares the text of the paper on figure 6 or 9.
func (b *builder) shape(op predict.Op) Table {
	t := Table{
		Caption: fmt.Sprintf("The form of figure %d: rerouted in the worst order, against rebalanced",
			shapeFigure[op]),
		Head: []string{"", "paper, 512 processes", "predicted, 512 processes",
			fmt.Sprintf("measured, %d processes", b.n)},
	}
	p, m := b.predictedForm(op, tableRanks), b.measuredForm(op)
	here := func(format string, args ...any) string {
		if m.failures == 0 {
			return absent
		}
		return fmt.Sprintf(format, args...)
	}
	begins := func(f form) string {
		if f.begins == 0 {
			return "never"
		}
		return fmt.Sprintf("%d failures (%s %% of the processes)", f.begins,
			number(100*float64(f.begins)/float64(f.ranks)))
	}
	t.Rows = [][]string{
		{"takes 10 % longer from", "grows after about 8 failures", begins(p), here("%s", begins(m))},
		{"longest at", "half of the processes", fmt.Sprintf("%d failures", p.peak), here("%d failures", m.peak)},
		{"there over rebalanced", "", ratio(p.highest), here("%s", ratio(m.highest))},
		{"at most failures over rebalanced", "nearly 1", fmt.Sprintf("%s at %d", ratio(p.last), p.failures),
			here("%s at %d", ratio(m.last), m.failures)},
	}
	return t
}

// shapeFigure is the number of an operation's figure of the worst order.
var shapeFigure = map[predict.Op]int{predict.Barrier: 6, predict.Bcast: 9}
