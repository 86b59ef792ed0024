package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/banyan-hpc/banyan/bench/stats"
)

// Verdict on a bound.
type Verdict string

// The verdicts. A ratio without a bound has [Info].
const (
	Met       Verdict = "met"
	Missed    Verdict = "missed"
	Undecided Verdict = "undecided"
	Info      Verdict = "-"
)

// Row is the result for one bound in one distance.
type Row struct {
	Bound Bound `json:"bound"`
	// Distance is empty for a bound without a pair in any distance.
	Distance Distance `json:"distance"`
	// Subject and Other are median seconds per message of the samples that were kept in this
	// distance. They are for orientation: only Ratio is comparable.
	Subject float64 `json:"subject_seconds"`
	Other   float64 `json:"other_seconds"`
	// SubjectLongest and OtherLongest are the longest calls in these samples; 0: they are not known.
	SubjectLongest float64        `json:"subject_longest_seconds,omitempty"`
	OtherLongest   float64        `json:"other_longest_seconds,omitempty"`
	Ratio          stats.Interval `json:"ratio"`
	Verdict        Verdict        `json:"verdict"`
	// Why an undecided bound is undecided.
	Why string `json:"why,omitempty"`
}

// Result is the result of a plan.
type Result struct {
	Name      string  `json:"name"`
	Title     string  `json:"title"`
	Precision float64 `json:"precision"`
	Rows      []Row   `json:"rows"`
	// Dropped counts the samples around which the control changed, Kept the others.
	Dropped int `json:"dropped"`
	Kept    int `json:"kept"`
	// Failed has the error of each source that could not be measured.
	Failed map[string]string `json:"failed,omitempty"`
	Rounds []Round           `json:"rounds"`
	// Cut: the last round was ended and dropped as the time of the measure was over.
	Cut bool `json:"cut,omitempty"`

	plan *Plan
}

func newResult(p *Plan) *Result {
	return &Result{
		Name: p.Name, Title: p.Title, Precision: p.Precision, Failed: map[string]string{},
		Rows: []Row{}, Rounds: []Round{}, plan: p, // readers of the JSON walk over them
	}
}

// pair is one paired observation of a bound's ratio.
type pair struct {
	subject, other, ratio        float64
	subjectLongest, otherLongest float64
}

// judge computes the rows from the rounds.
func (r *Result) judge(l Limits, m distances) {
	r.Rows, r.Kept, r.Dropped = []Row{}, 0, 0
	for i := range r.Rounds {
		for k := range r.Rounds[i].Samples {
			if r.Rounds[i].Samples[k].steady(l.MaxDrift) {
				r.Kept++
			} else {
				r.Dropped++
			}
		}
	}
	for _, b := range r.plan.Bounds {
		byDistance := r.pairs(b, l, m)
		found := false
		for _, distance := range allDistances {
			if len(byDistance[distance]) > 0 && (distance == Near || !b.OnlyNear) {
				r.Rows = append(r.Rows, r.row(b, distance, byDistance[distance], l))
				found = true
			}
		}
		if !found && b.Limit != 0 {
			r.Rows = append(r.Rows, r.unseen(b, l))
		}
	}
}

// unseen is the row of a bound without pairs: a table that leaves it out looks as if there were
// nothing to decide.
func (r *Result) unseen(b Bound, l Limits) Row {
	row := Row{Bound: b, Ratio: stats.Interval{High: math.Inf(1)}, Verdict: Undecided,
		Why: fmt.Sprintf("0 of %d pairs", l.MinPairs)}
	isIt := func(s Source) bool { return s.Name == b.Over }
	switch _, failed := r.Failed[b.Over]; {
	case failed:
		row.Why += ", it failed"
	case b.Over != Control && !slices.ContainsFunc(r.plan.Sources, isIt):
		row.Why = "not measured"
	case b.OnlyNear:
		row.Distance = Near
	}
	return row
}

// row judges one bound in one distance.
func (r *Result) row(b Bound, distance Distance, pairs []pair, l Limits) Row {
	var subject, other, ratio []float64
	for _, p := range pairs {
		subject = append(subject, p.subject)
		other = append(other, p.other)
		ratio = append(ratio, p.ratio)
	}
	row := Row{Bound: b, Distance: distance, Subject: stats.Median(subject), Other: stats.Median(other),
		Ratio: stats.MedianInterval(ratio)}
	for _, p := range pairs {
		row.SubjectLongest = max(row.SubjectLongest, p.subjectLongest)
		row.OtherLongest = max(row.OtherLongest, p.otherLongest)
	}
	row.Verdict, row.Why = b.judge(row.Ratio, r.Precision, l.MinPairs)
	return row
}

// judge decides the bound by the interval. The order matters: an interval that is too wide decides
// nothing, wherever it lies.
func (b Bound) judge(v stats.Interval, precision float64, minPairs int) (Verdict, string) {
	within, outside := v.High <= b.Limit, v.Low > b.Limit
	if b.Ratio == OfRates {
		within, outside = v.Low >= b.Limit, v.High < b.Limit
	}
	switch {
	case b.Limit == 0:
		return Info, ""
	case v.N < minPairs:
		return Undecided, fmt.Sprintf("%d of %d pairs", v.N, minPairs)
	case v.HalfWidth() > precision:
		if v.Unbounded() {
			return Undecided, fmt.Sprintf("%d pairs have no interval", v.N)
		}
		return Undecided, fmt.Sprintf("half-width %.2g %% > %.2g %%", 100*v.HalfWidth(), 100*precision)
	case within:
		return Met, ""
	case outside:
		return Missed, ""
	}
	return Undecided, "the interval holds the bound"
}

// pairs returns the observations of a bound by distance. Between two renewals all pairs of a
// distance make one observation, their median; incarnations of which less than half was kept are
// left out.
func (r *Result) pairs(b Bound, l Limits, m distances) map[Distance][]pair {
	out := map[Distance][]pair{}
	for start := 0; start < len(r.Rounds); {
		end := start + 1
		if r.plan.RenewEvery > 0 {
			for end < len(r.Rounds) && r.Rounds[end].Incarnation == r.Rounds[start].Incarnation {
				end++
			}
		}
		kept := map[Distance][]pair{}
		for i := start; i < end; i++ {
			if p, distance, ok := r.pairOf(&r.Rounds[i], b, l, m); ok {
				kept[distance] = append(kept[distance], p)
			}
		}
		for distance, ps := range kept {
			if 2*len(ps) >= r.plan.RenewEvery {
				out[distance] = append(out[distance], medianPair(ps))
			}
		}
		start = end
	}
	return out
}

// pairOf makes the pair of a round, if its samples are there, steady and of the same distance.
func (r *Result) pairOf(round *Round, b Bound, l Limits, m distances) (pair, Distance, bool) {
	s := round.of(r.plan.Sources[0].Name)
	if s == nil || !s.steady(l.MaxDrift) {
		return pair{}, "", false
	}
	distance := m.of(s.control())
	p := pair{subject: s.Seconds, other: s.control(), subjectLongest: s.Longest}
	if b.Over != Control {
		o := round.of(b.Over)
		if o == nil || !o.steady(l.MaxDrift) || !within(s.control(), o.control(), l.MaxDrift) ||
			m.of(o.control()) != distance {
			return pair{}, "", false
		}
		p.other, p.otherLongest = o.Seconds, o.Longest
	}
	p.ratio = p.subject / p.other
	if b.Ratio == OfRates {
		p.ratio = p.other / p.subject
	}
	return p, distance, true
}

func medianPair(ps []pair) pair {
	if len(ps) == 1 {
		return ps[0]
	}
	var s, o, q []float64
	var m pair
	for _, p := range ps {
		s, o, q = append(s, p.subject), append(o, p.other), append(q, p.ratio)
		m.subjectLongest, m.otherLongest = max(m.subjectLongest, p.subjectLongest), max(m.otherLongest, p.otherLongest)
	}
	m.subject, m.other, m.ratio = stats.Median(s), stats.Median(o), stats.Median(q)
	return m
}

// enough reports whether more rounds would not change a verdict: each distance in which some bound
// has pairs enough has, for all its bounds, pairs enough and intervals as narrow as asked for; and
// there is such a distance, or with Seek near ones and far ones. Ratios for information count only where there is nothing else.
func (r *Result) enough(l Limits) bool {
	bounded := slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Bound.Limit != 0 && row.Ratio.N > 0 })
	counts := func(row *Row) bool { return row.Ratio.N > 0 && (row.Bound.Limit != 0 || !bounded) }
	seen := map[Distance]bool{}
	for i := range r.Rows {
		if row := &r.Rows[i]; counts(row) && row.Ratio.N >= l.MinPairs {
			seen[row.Distance] = true
		}
	}
	for i := range r.Rows {
		if row := &r.Rows[i]; seen[row.Distance] && counts(row) &&
			(row.Ratio.N < l.MinPairs || row.Ratio.HalfWidth() > r.Precision) {
			return false
		}
	}
	if l.Seek && bounded {
		onlyNear := !slices.ContainsFunc(r.plan.Bounds, func(b Bound) bool { return b.Limit != 0 && !b.OnlyNear })
		return (seen[Near] || seen[Sibling]) && (seen[Far] || onlyNear)
	}
	return len(seen) > 0
}
