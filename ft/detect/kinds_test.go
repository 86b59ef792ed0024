package detect

// The kinds of events of a schedule.
const (
	withKills   = "kills"
	withOneWay  = "one-way partitions"
	withBothWay = "partitions"
	withPauses  = "stops shorter than the timeout" // false suspicions
	withLong    = "stops longer than that"
	withLink    = "links cut"
	withLeaving = "departures"
	withNodes   = "nodes"
)

var kindNames = []string{withKills, withOneWay, withBothWay, withPauses, withLong, withLink, withLeaving, withNodes}

// kinds counts the events of this world.
func (w *world) kinds(into map[string]int) {
	is := make(map[string]bool)
	for _, p := range w.nodes {
		is[withKills] = is[withKills] || p.killed
		is[withLeaving] = is[withLeaving] || p.left
	}
	for _, c := range w.cuts {
		is[withLink] = is[withLink] || c.side == nil
		is[withOneWay] = is[withOneWay] || c.side != nil && c.oneWay
		is[withBothWay] = is[withBothWay] || c.side != nil && !c.oneWay
	}
	is[withPauses], is[withLong] = w.short, w.long
	is[withNodes] = w.cfg.Node != nil
	for kind, yes := range is {
		if yes {
			into[kind]++
		}
	}
}
