package drill

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/banyan-hpc/banyan/bench/table"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Count counts the operations of one kind.
type Count struct {
	Ended  int `json:"ended"`         // in ranks that continued
	Failed int `json:"with_error"`    // of these, those that ended with an error
	Killed int `json:"killed_within"` // ranks that were killed with one under way
}

// Report counts all runs without a finding.
type Report struct {
	Runs, Ranks, Killed int
	Fabrics, Profiles   map[string]int // runs by these
	Kinds               [kinds]Count
	// Causes counts errors by the peer's end that they name.
	Causes map[proc.Kind]int
}

func (r *Report) add(p *plan, t *trace, ends []rankEnd) {
	if r.Fabrics == nil {
		r.Fabrics, r.Profiles, r.Causes = map[string]int{}, map[string]int{}, map[proc.Kind]int{}
	}
	r.Runs++
	r.Ranks += p.n
	r.Fabrics[p.fabric]++
	r.Profiles[p.profile.String()]++
	for rank, end := range ends {
		if end.killed {
			r.Killed++
		}
		for k := range causes {
			if n := t.errors(rank, proc.Kind(k)); n > 0 {
				r.Causes[proc.Kind(k)] += n
			}
		}
		for k := range kinds {
			c := &r.Kinds[k]
			c.Ended += t.get(rank, k, ended)
			c.Failed += t.get(rank, k, failed)
			if end.killed && t.get(rank, k, underWay) > 0 {
				c.Killed++
			}
		}
	}
}

// Missed are the lasting kinds within which no rank was killed yet.
func (r *Report) Missed() (missed []Kind) {
	for _, k := range Kinds() {
		if k.Lasting() && r.Kinds[k].Killed == 0 {
			missed = append(missed, k)
		}
	}
	return missed
}

// Write prints the table.
func (r *Report) Write(out io.Writer) error {
	var b strings.Builder
	ended, failed := 0, 0
	for _, c := range r.Kinds {
		ended += c.Ended
		failed += c.Failed
	}
	fmt.Fprintf(&b, "# Banyan drill: %d runs (%s; %s), %d ranks, %d of them killed; "+
		"%d operations ended, %d with an error\n",
		r.Runs, byName(r.Fabrics), byName(r.Profiles), r.Ranks, r.Killed, ended, failed)
	fmt.Fprintf(&b, "# errors by the cause that they name: %s\n", byName(r.CausesByName()))
	fmt.Fprintf(&b, "%-24s%14s%14s%14s\n", "# Operation", "Ended", "With error", "Killed within")
	for k, c := range r.Kinds {
		fmt.Fprintf(&b, "%-24s%14d%14d%14d\n", Kind(k), c.Ended, c.Failed, c.Killed)
	}
	return table.Printf(out, "%s", b.String())
}

// CausesByName is Causes by name.
func (r *Report) CausesByName() map[string]int {
	named := map[string]int{}
	for k, n := range r.Causes {
		named[k.String()] = n
	}
	return named
}

func byName(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
