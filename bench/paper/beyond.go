package paper

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/predict"
	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/coll/tree"
)

// notInPaper is the text of the paper's column.
const notInPaper = "–"

// beyond are the sections that the paper does not have. Their figures go on counting.
func (b *builder) beyond() ([]Section, error) {
	var out []Section
	for _, part := range []struct {
		title string
		fill  func(*Section) error
	}{
		{"unknown failures", b.unknown}, {"MPI_Allreduce", b.allreduces}, {"large broadcasts", b.largeMessages},
		{"other trees", b.otherTrees}, {"many processes", b.manyRanks},
	} {
		s := Section{Title: "Beyond the paper: " + part.title}
		if err := part.fill(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// deaths collects the unknown failures by design: µs until all others had the error, and until they
// had validated.
func (b *builder) deaths(d tree.Design) (told, repaired []float64) {
	for _, job := range b.m.Deaths {
		for _, death := range job.Deaths {
			if death.Line.Design == d.String() {
				told = append(told, float64(death.Told)/float64(time.Microsecond))
				repaired = append(repaired, float64(death.Repaired)/float64(time.Microsecond))
			}
		}
	}
	return told, repaired
}

var percents = []int{0, 10, 25, 50, 75, 90, 100}

// unknown is the cost of an unknown failure.
func (b *builder) unknown(s *Section) error {
	t := Table{Caption: "Ranks die during MPI_Barrier: µs from the kill until all others have the error, and until " +
		"all have validated; median, 90th percentile and longest",
		Head: []string{"design", "paper", "predicted", "measured: error", "measured: validated"}}
	chart := figure.Chart{Title: b.unknownTitle(), Fabric: sharedMemory,
		X: figure.Axis{Title: "percentile of the deaths", Unit: figure.Linear}, Y: logTime}
	reading := "It has not been measured."
	for _, d := range allDesigns[1:] {
		told, repaired := b.deaths(d)
		row := []string{designNames[d], notInPaper, "not predicted", absent, absent}
		if len(told) > 0 {
			text := func(v []float64) string {
				return fmt.Sprintf("%s, %s, %s, N = %d", number(stats.Percentile(v, 50)),
					number(stats.Percentile(v, 90)), number(stats.Percentile(v, 100)), len(v))
			}
			row[3], row[4] = text(told), text(repaired)
			for name, v := range map[string][]float64{"error": told, "validated": repaired} {
				line := figure.Series{Name: designNames[d] + ": " + name}
				for _, p := range percents {
					line.Points = append(line.Points, figure.Point{X: float64(p), Y: stats.Percentile(v, float64(p))})
				}
				chart.Series = append(chart.Series, line)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	slices.SortFunc(chart.Series, func(a, z figure.Series) int { return strings.Compare(a.Name, z.Name) })
	told, repaired := b.deaths(tree.Rebalance)
	if len(told) > 0 {
		e, v := stats.Percentile(told, 50), stats.Percentile(repaired, 50)
		reading = fmt.Sprintf("Half of the deaths during a barrier are an error at all other ranks within %s µs of "+
			"the kill (rebalanced design; the longest took %s µs), and half are repaired, "+
			"that is validated by all, within %s µs. So %s %% of the time of a repair is the time until all know; "+
			"the design changes the tree that is built afterwards, not this.",
			number(e), number(stats.Percentile(told, 100)), number(v), number(100*e/v))
	}
	s.Words = append(s.Words, reading)
	s.Tables = append(s.Tables, t)
	if len(chart.Series) > 0 {
		s.Figures = append(s.Figures, figureOf(11, chart))
	}
	return nil
}

// unknownTitle is the title of figure 11, with the numbers of failures and ranks.
func (b *builder) unknownTitle() string {
	if len(b.m.Deaths) == 0 {
		return "Figure 11: deaths during a barrier"
	}
	o := b.m.Deaths[0].Options
	return fmt.Sprintf("Figure 11, measured: deaths in barriers, %d of %d processes, %d CPUs", o.Failures, o.Ranks,
		b.m.CPUs)
}

// allreduces is the operation that the paper only names (§3.2).
func (b *builder) allreduces(s *Section) error {
	at := func(d tree.Design, ranks, failures int) point {
		return point{op: predict.Allreduce, bytes: smallBytes, design: d, ranks: ranks, failures: failures}
	}
	t := b.beyondTable(fmt.Sprintf("MPI_Allreduce of %d bytes, half of the processes dead, worst order; time of one "+
		"operation in µs", smallBytes), "design")
	for _, d := range allDesigns {
		t.Rows = append(t.Rows, b.beyondRow(designNames[d], at(d, tableRanks, tableFailed), at(d, b.n, b.n/2)))
	}
	predicted, real := b.charts(
		figure.Chart{Title: fmt.Sprintf("Figure 12, predicted: MPI_Allreduce of %d bytes, %d processes, worst order",
			smallBytes, tableRanks), X: failed, Y: linearly},
		figure.Chart{Title: b.measuredTitle(fmt.Sprintf("%d processes", b.n))}, designLines(allDesigns, at),
		failureCounts, quarters(b.n))
	reroute, rebalance := at(tree.Reroute, tableRanks, tableFailed), at(tree.Rebalance, tableRanks, tableFailed)
	barrier := func(k point) point { k.op, k.bytes = predict.Barrier, 0; return k }
	s.Words = append(s.Words, fmt.Sprintf("Allreduce goes up and down the tree as the barrier does, with data. With "+
		"half of %d processes dead rerouting is predicted to take %s times rebalancing's time, the barrier's factor "+
		"is %s: "+
		"the %d bytes hardly count. Measured with %d processes: %s.", tableRanks,
		ratio(b.p.at(reroute)/b.p.at(rebalance)), ratio(b.p.at(barrier(reroute))/b.p.at(barrier(rebalance))),
		smallBytes,
		b.n, ratioText(b.m.over(at(tree.Reroute, b.n, b.n/2), at(tree.Rebalance, b.n, b.n/2)))))
	s.Tables = append(s.Tables, t)
	s.Figures = append(s.Figures, figureOf(12, predicted, real))
	return nil
}

// beyondTable is a table that the paper does not have.
func (b *builder) beyondTable(caption, what string) Table {
	return Table{Caption: caption, Head: []string{what, "paper", fmt.Sprintf("predicted, %d processes", tableRanks),
		fmt.Sprintf("predicted, %d processes", b.n),
		fmt.Sprintf("measured, %d processes on %d CPUs", b.n, b.m.CPUs)}}
}

func (b *builder) beyondRow(name string, all, here point) []string {
	return []string{name, notInPaper, number(b.p.at(all)), number(b.p.at(here)), timeText(b.m.time(here))}
}

// largeRounds is enough for broadcasts each of which takes longer than its way.
const largeRounds = 20

// largeMessages are broadcasts of more than a frame.
func (b *builder) largeMessages(s *Section) error {
	at := func(d tree.Design, ranks, bytes int) point {
		return point{op: predict.Bcast, bytes: bytes, design: d, ranks: ranks, failures: ranks / 2,
			rounds: min(largeRounds, b.p.rounds)}
	}
	t := b.beyondTable("MPI_Bcast of large messages, half of the processes dead, worst order; time of one operation "+
		"in µs", "bytes, design")
	size := figure.Axis{Title: "message size (bytes)", Unit: figure.Bytes}
	predicted, real := b.charts(
		figure.Chart{Title: fmt.Sprintf("Figure 13, predicted: MPI_Bcast, %d of %d processes dead, worst order",
			tableFailed, tableRanks), X: size, Y: logTime},
		figure.Chart{Title: b.measuredTitle(fmt.Sprintf("%d of %d processes dead", b.n/2, b.n))},
		designLines([]tree.Design{tree.Unaware, tree.Reroute, tree.Rebalance}, at), largeSizes, largeSizes)
	for _, bytes := range largeSizes {
		for _, d := range []tree.Design{tree.Reroute, tree.Rebalance} {
			t.Rows = append(t.Rows, b.beyondRow(fmt.Sprintf("%d, %s", bytes, designNames[d]), at(d, tableRanks, bytes),
				at(d, b.n, bytes)))
		}
	}
	factor := func(bytes int) string {
		return ratio(b.p.at(at(tree.Reroute, tableRanks, bytes)) / b.p.at(at(tree.Rebalance, tableRanks, bytes)))
	}
	here := func(bytes int) string {
		return ratioText(b.m.over(at(tree.Reroute, b.n, bytes), at(tree.Rebalance, b.n, bytes)))
	}
	s.Words = append(s.Words, fmt.Sprintf("Rerouting is predicted to take %s times rebalancing's time at %d bytes, "+
		"and %s times at %d: the busiest port sends each byte as often as it has children, whatever the length. "+
		"Measured with %d processes: %s and %s. The simulator sends a message in one piece; the library cuts long "+
		"ones into segments that follow each other down the tree.",
		factor(largeSizes[0]), largeSizes[0], factor(longestMessage), longestMessage, b.n, here(largeSizes[0]),
		here(longestMessage)))
	s.Tables = append(s.Tables, t)
	s.Figures = append(s.Figures, figureOf(13, predicted, real))
	return nil
}

// otherTrees are barriers on trees of other shapes.
func (b *builder) otherTrees(s *Section) error {
	t := b.beyondTable("MPI_Barrier, rebalanced, half of the processes dead, worst order; time of one operation in µs",
		"tree")
	var lines []line
	best, least := "", 0.0
	for _, name := range otherTrees {
		shape, err := tree.ParseShape(name)
		if err != nil {
			return err
		}
		at := func(ranks, failures int) point {
			return point{op: predict.Barrier, design: tree.Rebalance, shape: shape, ranks: ranks, failures: failures}
		}
		lines = append(lines, line{name, at})
		t.Rows = append(t.Rows, b.beyondRow(name, at(tableRanks, tableFailed), at(b.n, b.n/2)))
		if us := b.p.at(at(tableRanks, tableFailed)); best == "" || us < least {
			best, least = name, us
		}
	}
	predicted, real := b.charts(
		figure.Chart{Title: fmt.Sprintf("Figure 14, predicted: MPI_Barrier, rebalanced, %d processes, worst order",
			tableRanks), X: failed, Y: linearly},
		figure.Chart{Title: b.measuredTitle(fmt.Sprintf("%d processes", b.n))}, lines, failureCounts, quarters(b.n))
	plain := b.p.at(point{op: predict.Barrier, design: tree.Rebalance, ranks: tableRanks, failures: tableFailed})
	s.Words = append(s.Words, fmt.Sprintf("With half of %d processes dead the %s tree is predicted to be the fastest "+
		"of %s, at %s µs: %s of the binomial tree's time. "+
		"What decides is how many messages leave and enter a node's one port. The processes measured here are all on "+
		"one node, on which the tree node is like the others.",
		tableRanks, best, strings.Join(otherTrees, ", "), number(least), ratio(least/plain)))
	s.Tables = append(s.Tables, t)
	s.Figures = append(s.Figures, figureOf(14, predicted, real))
	return nil
}

// scaleRounds is how often an operation is done among many ranks: each barrier waits for all.
const scaleRounds = 2

// manyRanks covers numbers of ranks beyond any available machine.
func (b *builder) manyRanks(s *Section) error {
	lines := []struct {
		name, machine string
		design        tree.Design
	}{
		{"machine of 2011, rerouted", "", tree.Reroute}, {"machine of 2011, rebalanced", "", tree.Rebalance},
		{"InfiniBand, rerouted", "infiniband", tree.Reroute}, {"InfiniBand, rebalanced", "infiniband", tree.Rebalance},
	}
	at := func(i, ranks int) point {
		return point{machine: lines[i].machine, op: predict.Barrier, design: lines[i].design, ranks: ranks,
			failures: ranks / 2, rounds: scaleRounds}
	}
	t := Table{Caption: "MPI_Barrier, half of the processes dead, worst order; time of one operation in µs",
		Head: []string{"machine, design", "paper", "measured"}}
	chart := figure.Chart{Title: "Figure 15, predicted: MPI_Barrier, half of the processes dead, worst order",
		Fabric: "simulated networks", X: figure.Axis{Title: "processes"}, Y: logTime}
	var counts []int
	for n := 1000; n <= b.most; n *= 10 {
		counts = append(counts, n)
		t.Head = append(t.Head, fmt.Sprintf("predicted, %d processes", n))
	}
	for i, l := range lines {
		line, row := figure.Series{Name: l.name}, []string{l.name, notInPaper, "not possible here"}
		for _, n := range counts {
			us := b.p.at(at(i, n))
			line.Points = append(line.Points, figure.Point{X: float64(n), Y: us})
			row = append(row, number(us))
		}
		chart.Series = append(chart.Series, line)
		t.Rows = append(t.Rows, row)
	}
	if len(counts) > 0 {
		few, many := counts[0], counts[len(counts)-1]
		s.Words = append(s.Words, fmt.Sprintf("From %d to %d processes, half of them dead, a rebalanced barrier on "+
			"InfiniBand is predicted to take %s times as long, a rerouted one %s times. At %d processes rerouting "+
			"takes %s times "+
			"rebalancing's time on the machine of 2011 and %s times on InfiniBand: the tree has %d living ranks "+
			"under one root instead of a depth that grows with the logarithm.",
			few, many, number(b.p.at(at(3, many))/b.p.at(at(3, few))), number(b.p.at(at(2, many))/b.p.at(at(2, few))),
			many,
			number(b.p.at(at(0, many))/b.p.at(at(1, many))), number(b.p.at(at(2, many))/b.p.at(at(3, many))),
			many/2-1))
	}
	s.Tables = append(s.Tables, t)
	if len(counts) > 0 {
		s.Figures = append(s.Figures, figureOf(15, chart))
	}
	return nil
}
