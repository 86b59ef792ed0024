package tune

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/internal/job"
)

// PlaceOf is the communicator of a job's world as its rules name it: the number of ranks, their nodes and cores.
func PlaceOf(w *banyan.World) choose.Rule {
	n := w.Comm().Size()
	counts := map[int]int{}
	for rank := range n {
		counts[w.Node(rank)]++
	}
	r := choose.Rule{Ranks: choose.Range{From: n, To: n}, PerNode: choose.All, Span: choose.OneNode, Cores: choose.OwnCores}
	if len(counts) > 1 {
		most := 0
		for _, ranks := range counts {
			most = max(most, ranks)
		}
		r.Span, r.PerNode = choose.AnyNodes, choose.Range{From: most, To: most}
	}
	if j := job.Joined(); j != nil && j.Coll.Crowded {
		r.Cores = choose.SharedCores
	}
	return r
}

// Found is a rule with its reason.
type Found struct {
	choose.Rule
	Why string
}

// Rules returns the rules for a place by which operations use the choices of the points, if these are not the
// default. Points are by operation, and of each by length.
func Rules(at choose.Rule, points []CollectivePoint) (rules []Found) {
	for len(points) > 0 {
		n := 1
		for n < len(points) && points[n].Op == points[0].Op {
			n++
		}
		at.Op = points[0].Op
		if at.Op.Switches() {
			rules = append(rules, switching(at, points[:n])...)
		} else {
			rules = append(rules, always(at, points[:n])...)
		}
		points = points[n:]
	}
	return rules
}

// switching has a rule for each run of lengths with one choice that is not the default.
func switching(at choose.Rule, points []CollectivePoint) (rules []Found) {
	for i := 0; i < len(points); {
		end := i + 1
		for end < len(points) && points[end].Chosen == points[i].Chosen {
			end++
		}
		if differs(points[i:end]) {
			bytes := choose.Range{From: points[i].Bytes, To: math.MaxInt}
			if i == 0 {
				bytes.From = 0
			}
			if end < len(points) {
				bytes.To = points[end].Bytes - 1
			}
			rules = append(rules, rule(at, points[i].Chosen, bytes, points[i:end]))
		}
		i = end
	}
	return slices.DeleteFunc(rules, func(f Found) bool { // memory is for the shortest lengths alone
		return (f.By == choose.Memory || f.By == choose.Levels) && f.Bytes.From > 0
	})
}

// differs reports whether a choice is not the default at some of the points.
func differs(points []CollectivePoint) bool {
	return slices.ContainsFunc(points, func(p CollectivePoint) bool { return p.Chosen != p.Default })
}

// always returns the rules of an operation with one algorithm of messages: the limit of the memory, and the
// algorithm.
func always(at choose.Rule, points []CollectivePoint) (rules []Found) {
	from := 0 // the first point that messages are better for
	for from < len(points) && shared(points[from].Default) && points[from].Chosen == points[from].Default {
		from++
	}
	var messages []CollectivePoint
	for _, p := range points[from:] {
		if !shared(p.Chosen) {
			messages = append(messages, p)
		}
	}
	by := ""
	for _, p := range messages {
		if p.Chosen != p.Default && !slices.ContainsFunc(messages, func(q CollectivePoint) bool {
			way := q.Way(p.Chosen)
			return way.worse() || math.IsNaN(way.Ratio)
		}) {
			by = p.Chosen
			break
		}
	}
	if by == "" {
		return nil
	}
	if from > 0 {
		rules = append(rules, rule(at, points[0].Default, choose.Range{To: points[from].Bytes - 1}, points[:from]))
	}
	return append(rules, rule(at, by, choose.All, messages))
}

func shared(algorithm string) bool {
	return algorithm == choose.Memory.String() || algorithm == choose.Levels.String()
}

// rule is a rule, with the largest gain as its reason.
func rule(at choose.Rule, algorithm string, bytes choose.Range, points []CollectivePoint) Found {
	at.Bytes, at.By = bytes, mustParse(algorithm)
	best := &points[0]
	for i := range points {
		if points[i].Way(algorithm).Ratio < best.Way(algorithm).Ratio {
			best = &points[i]
		}
	}
	if best.Default == algorithm {
		return Found{at, "the default"}
	}
	way := best.Way(algorithm)
	return Found{at, fmt.Sprintf("%.2f (%.2f … %.2f) of %s at %d bytes", way.Ratio, way.Low, way.High, best.Default, best.Size)}
}

// mustParse reads the word of an algorithm that a communicator has named.
func mustParse(algorithm string) choose.Algorithm {
	by, err := choose.ParseAlgorithm(algorithm)
	if err != nil {
		panic(err)
	}
	return by
}

// TableText formats rules as a table. The comments precede them, a line each.
func TableText(comments []string, rules []Found) string {
	var b strings.Builder
	for _, c := range comments {
		fmt.Fprintf(&b, "# %s\n", c)
	}
	fmt.Fprintf(&b, "#\n# %-18s  %-7s  %-8s  %-6s  %-12s  %s\n", "operation", "ranks", "per-node", "cores", "bytes", "algorithm")
	for _, f := range rules {
		fmt.Fprintf(&b, "%-74s # %s\n", f.Rule, f.Why)
	}
	if len(rules) == 0 {
		b.WriteString("# none: the defaults are kept, nothing else is significantly faster here\n")
	}
	return b.String()
}

// CollectiveCharts has a picture of each operation with sizes: a line for each algorithm, and the chosen ones.
func CollectiveCharts(ranks int, points []CollectivePoint) (charts []figure.Chart) {
	for op := range choose.NumOps {
		c := figure.Chart{
			Title: fmt.Sprintf("%v, %s ranks", op, strconv.Itoa(ranks)),
			X:     figure.Axis{Title: "message size (bytes)", Unit: figure.Bytes}, Y: figure.Axis{Title: "time (µs)"},
		}
		lines := map[string]int{}
		chosen := figure.Series{Name: "chosen", Dots: true}
		for _, p := range points {
			if p.Op != op || p.Size == 0 {
				continue
			}
			for _, way := range p.Ways {
				i, known := lines[way.Algorithm]
				if !known {
					i = len(c.Series)
					lines[way.Algorithm] = i
					c.Series = append(c.Series, figure.Series{Name: way.Algorithm})
				}
				at := figure.Point{X: float64(p.Size), Y: 1e6 * way.Seconds}
				c.Series[i].Points = append(c.Series[i].Points, at)
				if way.Algorithm == p.Chosen {
					chosen.Points = append(chosen.Points, at)
				}
			}
		}
		if len(c.Series) > 0 {
			c.Series = append(c.Series, chosen)
			charts = append(charts, c)
		}
	}
	return charts
}
