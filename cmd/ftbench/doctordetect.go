package main

import (
	"fmt"
	"slices"
	"strings"
)

// deaths says how the ranks learn of each other's deaths: all[i] is what rank i says; nil where it
// could not be asked.
func deaths(all []*told, node func(int) int) string {
	var b strings.Builder
	b.WriteString("# failure detection\n")
	b.WriteString(silences(all))
	by := make(map[int][]string) // of each node, what its ranks say
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

// silences says what silence is death; ranks of which each has another opinion are named.
func silences(all []*told) string {
	var b strings.Builder
	first := all[0].Detection
	switch {
	case !first.On && len(all) == 1:
		b.WriteString("silence: there is nobody to observe\n")
	case !first.On:
		b.WriteString("silence: nobody looks for it (detect is off): ranks whose machine is lost are waited for\n")
	default:
		why := ""
		if first.Longer > 1 {
			why = fmt.Sprintf(", %d times the default as ranks share cores", first.Longer)
		}
		fmt.Fprintf(&b, "silence: of %v is death (detect.timeout%s), heartbeats each %v (detect.period), partition rule %s (detect.partition)\n",
			first.Timeout, why, first.Period, first.Partition)
	}
	for rank, t := range all {
		if t == nil {
			continue
		}
		d := t.Detection
		if d.Evidence = first.Evidence; d != first {
			fmt.Fprintf(&b, "warning: rank %d has other values than rank 0 (on %t, timeout %v, period %v, partition %s): all ranks need the same\n",
				rank, d.On, d.Timeout, d.Period, d.Partition)
		}
	}
	return b.String()
}
