package paper

import (
	"fmt"
	"math"
	"strings"

	"github.com/banyan-hpc/banyan/bench/predict"
	"github.com/banyan-hpc/banyan/bench/stats"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric/sim"
)

// Predictions is the extent of the predictions.
type Predictions struct {
	// Rounds is the length of the inner timing loop; the paper's is [Rounds].
	Rounds int
	// Most is the largest job beyond the paper.
	Most int
}

// builder makes the sections of a report.
type builder struct {
	p    *predictor
	m    *Measured
	most int
	// n is the number of real ranks with which the paper's are compared.
	n int
}

// usualRanks is n where nothing has been measured.
const usualRanks = 64

func newBuilder(m *Measured, o Predictions, step func()) *builder {
	b := &builder{p: &predictor{rounds: o.Rounds, known: map[point]float64{}, step: step}, m: m, most: o.Most,
		n: usualRanks}
	if ranks := m.ranks(); len(ranks) > 0 {
		b.n = ranks[len(ranks)-1]
	}
	return b
}

// Steps is how many predictions a report takes.
func Steps(m *Measured, o Predictions) int {
	n := 0
	b := newBuilder(m, o, func() { n++ })
	b.p.count = true
	_, _ = b.report() // without predictions nothing fails
	return n
}

// Build makes the report: predictions for all, and the measurements beside them. step is called
// once for each of [Steps] predictions. With the paper's 300 rounds and a million ranks it takes
// about a minute of one core.
func Build(m *Measured, o Predictions, step func()) (*Report, error) {
	return newBuilder(m, o, step).report()
}

func (b *builder) report() (*Report, error) {
	r := &Report{Title: "Fault-aware collectives: the experiments of Hursey and Graham again", Words: []string{
		"Each value of the paper (Joshua Hursey, Richard L. Graham: Analyzing Fault Aware Collective Performance in " +
			"a Process Fault Tolerant MPI, 2011) beside " +
			"the prediction for its machine in virtual time, and beside a measurement with real processes on this " +
			"machine.",
		fmt.Sprintf("Paper: 512 processes on 32 nodes of 16 cores, gigabit Ethernet and shared memory; each value is "+
			"the average of 30 sets of %d operations. "+
			"Predicted: the same machine and the same number of processes, in virtual time, %d operations in a row; "+
			"the predictions follow the messages of the plans that the library walks. "+
			"Two parameters are fitted, to table 1 alone: a node's port takes %.3f µs for a frame, in or out, and a "+
			"frame takes %.3f µs from port to port. "+
			"Everything else is stated by the paper, by gigabit Ethernet or by TCP. Table 2 and figures 5 to 10 are "+
			"predictions.",
			Rounds, b.p.rounds, micros(sim.Fitted.Engine), micros(sim.Fitted.Latency)) + b.shortRows(),
		b.scale(),
	}}
	one := func(s Section, err error) ([]Section, error) { return []Section{s}, err }
	for _, part := range []func() ([]Section, error){
		func() ([]Section, error) { return one(b.trees(tree.Reroute, 1, "rerouting")) },
		func() ([]Section, error) { return one(b.trees(tree.Rebalance, 2, "rebalancing")) },
		func() ([]Section, error) {
			return []Section{b.messages(), b.rebuilding(), b.barriers(), b.bcasts()}, nil
		},
		b.beyond,
		func() ([]Section, error) { return []Section{b.differences()}, nil },
	} {
		s, err := part()
		if err == nil {
			err = b.p.err
		}
		if err != nil {
			return nil, err
		}
		r.Sections = append(r.Sections, s...)
	}
	return r, nil
}

// shortRows warns of predictions of fewer operations than the paper's.
func (b *builder) shortRows() string {
	if b.p.rounds >= Rounds {
		return ""
	}
	return fmt.Sprintf(" With %d operations in a row instead of %d broadcasts are predicted too short: the last has "+
		"not yet left the root when the first has arrived everywhere only in a long row.", b.p.rounds, Rounds)
}

// note describes, at a table of an operation, the effect of fewer operations in a row and fewer sets
// than the paper's on its numbers; "" if there are enough.
func (b *builder) note(op predict.Op) string {
	text := ""
	if b.p.rounds < Rounds {
		bias := "a barrier is predicted too long, with 10 in a row by up to 1.6 %, since the first counts for more"
		if op == predict.Bcast {
			bias = "a broadcast is predicted too short, with 10 in a row by 2 to 13 %, since its last message leaves the root early"
		}
		text = fmt.Sprintf("Predicted with %d operations in a row instead of %d: %s. A prediction is in virtual time: "+
			"it has no noise and no interval, and more sets do not correct it.", b.p.rounds, Rounds, bias)
	}
	if n := b.sets(); n > 0 && n < enoughSets {
		how := "have no interval"
		if n >= fewestSets {
			how = "have an interval from the least to the greatest set, which one preempted set widens"
		}
		text += fmt.Sprintf(" With --sets %d measured medians %s.", n, how)
	}
	return strings.TrimPrefix(text, " ")
}

// The sign test gives fewer sets than fewestSets no interval, and fewer than enoughSets one from the least
// to the greatest.
const fewestSets, enoughSets = 6, 9

// sets is the least number of sets of a job, 0 if nothing was measured.
func (b *builder) sets() int {
	least := 0
	for _, r := range b.m.Jobs {
		if least == 0 || r.Options.Sets < least {
			least = r.Options.Sets
		}
	}
	return least
}

// scale describes the measurements and the machine.
func (b *builder) scale() string {
	ranks := b.m.ranks()
	if len(ranks) == 0 {
		return "Measured: nothing. ftbench paper without --no-measure measures."
	}
	first := b.m.Jobs[len(b.m.Jobs)-1].Options
	return fmt.Sprintf("Measured: %s real processes over shared memory, on %d CPUs of one machine (%s), where the "+
		"paper had a core for each of 512. "+
		"With more processes than cores they take turns, so a time here is mostly the sum of the work of all, and "+
		"not the longest way through the tree. "+
		"Compare ratios within a column, not times between columns. Ranks are ended with SIGKILL, the others "+
		"validate; each value is the median of %d sets of %d operations "+
		"with its 95 %% interval (sign test), N the number of sets. All designs and the baseline have a set in turn, "+
		"within one job, and ratios are of sets of the same turn.",
		strings.Join(strings.Fields(strings.Trim(fmt.Sprint(ranks), "[]")), ", "), b.m.CPUs, b.m.CPU, first.Sets,
		b.calls())
}

// calls is the number of operations of a barrier's set.
func (b *builder) calls() int {
	for _, r := range b.m.Jobs {
		if r.Options.Size == 0 {
			return r.Options.Calls
		}
	}
	return 0
}

// rootChildren are those of the rerouted tree's root that §3.1 states, by the failures.
var rootChildren = map[int]string{0: "4", 4: "8", 8: "7"}

// trees is figure 1 or 2.
func (b *builder) trees(d tree.Design, number int, name string) (Section, error) {
	drawing := draw(d)
	t := Table{Caption: "Children of the root", Head: []string{"failures", "paper", "predicted and measured here: " +
		"the plan that the simulator and the real ranks walk"}}
	for _, failures := range drawnFailures {
		printed := "drawn"
		if text, stated := rootChildren[failures]; stated && d == tree.Reroute {
			printed = text
		}
		t.Rows = append(t.Rows, []string{fmt.Sprint(failures), printed, fmt.Sprint(degree(d, failures))})
	}
	return Section{Title: fmt.Sprintf("Figure %d: binomial trees of 16 ranks, %s", number, name), Drawing: drawing,
		Tables: []Table{t}}, nil
}

// messages is §4.1.
func (b *builder) messages() Section {
	q := point2point
	latency, _ := b.m.message(1)
	var best Message
	for _, v := range b.m.Messages {
		if v.Bytes > 1 && (best.Bytes == 0 || mbps(v.Bytes, v.Unaware) > mbps(best.Bytes, best.Unaware)) {
			best = v
		}
	}
	here := func(v Message, text string) string {
		if v.Pairs == 0 {
			return absent
		}
		return fmt.Sprintf("%s, N = %d", text, v.Pairs)
	}
	const given = " (given)"
	s := Section{Title: "4.1 Point-to-point overhead", Words: []string{
		"Ping-pong over shared memory with a fault-unaware and a fault-aware engine, as NetPIPE times it. The " +
			"simulator is given the paper's values. " +
			"Measured: two ranks on two cores, both engines in turn; N is the number of observations, each from " +
			"processes of its own."}}
	s.Tables = []Table{{Caption: "One byte, and the largest throughput",
		Head: []string{"", "paper", "predicted", "measured"}, Rows: [][]string{
			{"latency, unaware (µs)", fmt.Sprint(q.latency), fmt.Sprint(q.latency) + given,
				here(latency, number(latency.Unaware))},
			{"latency, aware (µs)", fmt.Sprint(q.aware), fmt.Sprint(q.aware) + given,
				here(latency, number(latency.Aware))},
			{"latency, aware over unaware", ratio(q.aware / q.latency), ratio(q.aware/q.latency) + given,
				ratioText(latency.ratio())},
			{"throughput, unaware (Mbps of 2^20 bit/s)", fmt.Sprint(q.mbps), fmt.Sprint(q.mbps) + given,
				here(best, fmt.Sprintf("%.0f at %d bytes", mbps(best.Bytes, best.Unaware), best.Bytes))},
			{"throughput, aware (Mbps of 2^20 bit/s)", fmt.Sprint(q.awareMbps), "not predicted",
				here(best, fmt.Sprintf("%.0f at %d bytes", mbps(best.Bytes, best.Aware), best.Bytes))},
			{"time of a large message, aware over unaware", ratio(q.mbps / q.awareMbps), "not predicted",
				ratioText(best.ratio())},
		}}}
	if why := b.m.Absent[AbsentMessages]; why != "" {
		s.Words = append(s.Words, "Not measured: "+why)
	}
	return s
}

// AbsentMessages is the name of §4.1 in Measured.Absent.
const AbsentMessages = "messages"

func mbps(bytes int, us float64) float64 {
	if us == 0 {
		return 0
	}
	return 8 * float64(bytes) / (us / 1e6) / (1 << 20)
}

// ratio is aware over unaware.
func (v Message) ratio() stats.Interval {
	if v.High == 0 {
		return stats.Interval{Median: v.Ratio, High: math.Inf(1), N: v.Pairs}
	}
	return stats.Interval{Median: v.Ratio, Low: v.Low, High: v.High, N: v.Pairs}
}

// barriers is §4.3.
func (b *builder) barriers() Section {
	s := Section{Title: "4.3 MPI_Barrier"}
	b.operation(&s, 5, predict.Barrier, Table1)
	return s
}

// bcasts is §4.4.
func (b *builder) bcasts() Section {
	s := Section{Title: "4.4 MPI_Bcast", Words: []string{"1 KB from rank 0. The paper's tests are forced to make the " +
		"tree again at each call; here the plan of the stored tree is used."}}
	b.operation(&s, 8, predict.Bcast, Table2)
	return s
}

// operation adds the tables and the three figures from a number on.
func (b *builder) operation(s *Section, from int, op predict.Op, cells []Cell) {
	for _, t := range []Table{b.table(op, cells), b.ratios(op, cells), b.shape(op)} {
		t.Note = b.note(op)
		s.Tables = append(s.Tables, t)
	}
	s.Figures = append(s.Figures, b.withoutFailures(from, op),
		b.amongFailed(from+1, op, "worst order", designsInWorst(), cells),
		b.amongFailed(from+2, op, "three orders", threeOrders(), cells))
}
