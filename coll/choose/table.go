package choose

import (
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"sync"
)

// Table chooses algorithms. Its rules do not change. All goroutines may use it at once.
type Table struct {
	rules  []Rule
	counts bool

	mu    sync.Mutex
	menus map[key]*Menu // computed on demand
}

type key struct {
	op Op
	p  Place
}

// defaults are the rules that follow those of every table.
//
//   - bcast and reduce in segments from 512 KiB on: between nodes, where more than two ranks would wait for the
//     whole in turn. On one node, where the receiver copies from the sender's memory and ranks may share cores,
//     each segment costs more than it gains.
//   - knomial of ranks that share cores: a rank waits fewer times for its core than in the binomial tree. Among 8, 16 and
//     64 ranks on two cores a reduce of up to 16 KiB takes 0.3 to 0.6 of the time, with a barrier after each 0.4 to 0.8,
//     and one directly after the other 0.7 to 1.5 (decision 141).
//   - straight: each rank that passes on a message copies it, and waits for its core. With 64 ranks on two cores a
//     root's 63 messages take a tenth of the time of the tree, at every length. With 65 and 128 a barrier and a
//     gather, scatter or bcast of 4 KiB take 0.2 to 0.6 of the time of the tree. But beyond 16 ranks with cores of
//     their own, all would read the memory of a bcast's root at once. An allgather among 32 ranks takes 1.4 of the
//     time of recursive doubling for 1 KiB, and 0.6 for 8 KiB, and among 64 twice the time.
//   - halving from 16 KiB on, of ranks that share cores from 64: buffers are folded in parts, a part at each rank,
//     after a length header. Among 4, 8 and 16 ranks on two cores doubling takes 0.64 to 0.70 of the time for
//     16 KiB, 0.74 to 0.90 for 32 KiB, and 0.94 to 1.23 for 64 KiB. Straight takes two steps in place of six, copies two
//     thirds of the bytes, and sends more messages: from there on it takes 0.79 to 1.02 of the time of 4 ranks, from
//     1 MiB on 0.85 to 0.92 of 8, and from 2 MiB on 0.85 to 0.91 of 16 (decision 171). Two ranks with cores of
//     their own copy nothing then: from 64 KiB on it takes 0.54 to 0.78 of the time of halving. For 16 KiB doubling
//     takes 0.83 of it (decision 188).
//   - a scan along a chain of ranks that share cores, where each buffer is folded once: 0.4 to 0.8 of the time of doubling
//     from 32 KiB on, and 0.7 to 0.9 of 8 and 16 KiB among 12 and 16 ranks (decision 179).
const defaults = `
barrier               *     *     *       *      memory
barrier               *     *     *       *      levels
barrier               *     *     *       *      dissemination
bcast                 3..   part  *       512k.. pipelined
bcast                 *     *     *       *      memory
bcast                 *     *     *       *      levels
bcast                 ..16  all   *       *      straight
bcast                 *     all   shared  *      straight
bcast                 *     *     *       *      binomial
reduce                3..   part  *       512k.. pipelined
reduce                5..   all   shared  *      knomial
reduce                *     *     *       *      binomial
allreduce             *     *     *       *      memory
allreduce             *     *     *       *      levels
allreduce             2     all   own     32k..  straight
allreduce             2     all   own     17k..  halving
allreduce             2     all   own     16k..  doubling
allreduce             3..5  all   shared  64k..  straight
allreduce             6..8  all   shared  1m..   straight
allreduce             9..16 all   shared  2m..   straight
allreduce             *     all   shared  64k..  halving
allreduce             *     all   own     16k..  halving
allreduce             *     part  *       16k..  halving
allreduce             *     *     *       *      doubling
gather                ..64  all   *       *      straight
gather                *     all   shared  *      straight
gather                *     *     *       *      binomial
scatter               ..64  all   *       *      straight
scatter               *     all   shared  *      straight
scatter               *     *     *       *      binomial
allgather             *     *     *       *      memory
allgather             *     *     *       *      levels
allgather             ..16  all   *       *      straight
allgather             *     *     *       *      doubling
allgatherv            *     *     *       *      memory
allgatherv            *     *     *       *      straight
alltoall              *     *     *       *      memory
alltoall              *     *     *       *      straight
reduce_scatter_block  *     *     *       *      memory
reduce_scatter_block  *     *     *       *      straight
scan                  9..24 all   shared  6k..   chain
scan                  3..8  all   shared  24k..  chain
scan                  *     *     *       *      doubling
`

var defaultTable = sync.OnceValue(func() *Table {
	rules, err := parseRules("defaults", defaults)
	if err != nil {
		panic(err) // tested
	}
	return newTable(rules)
})

// Default is the table without rules of the user.
func Default() *Table { return defaultTable() }

// Parse parses a table. The name is for errors, which have a line for each wrong line of the table, with its
// number and the possible values.
func Parse(name, text string) (*Table, error) {
	rules, err := parseRules(name, text)
	if err != nil {
		return nil, err
	}
	return New(rules...), nil
}

// New makes a table of rules, followed by those of Default.
func New(rules ...Rule) *Table { return newTable(slices.Concat(rules, Default().rules)) }

func newTable(rules []Rule) *Table {
	t := &Table{rules: rules, menus: map[key]*Menu{}}
	for i := range rules {
		t.counts = t.counts || rules[i].PerNode != All
	}
	return t
}

// CountsNodes reports whether Place.PerNode counts.
func (t *Table) CountsNodes() bool { return t.counts }

// Sum is a sum of the rules: tables with different rules have different ones.
func (t *Table) Sum() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.String())) // does not fail
	return h.Sum64()
}

// String formats the rules, including the defaults. Parse parses the result.
func (t *Table) String() string {
	var b strings.Builder
	for _, r := range t.rules {
		b.WriteString(r.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Menu is a table at one place. It does not change.
type Menu struct {
	// Memory and Levels are the longest lengths, in bytes, that go by these; -1: none.
	Memory, Levels int
	classes        []class
}

// class is the algorithm of messages from a length on.
type class struct {
	from int
	by   Algorithm
}

// First is the algorithm of messages of the shortest lengths.
func (m *Menu) First() Algorithm { return m.classes[0].by }

// One reports whether messages of all lengths go by it.
func (m *Menu) One() bool { return len(m.classes) == 1 }

// At is the algorithm of messages of a length.
func (m *Menu) At(bytes int) Algorithm {
	i := len(m.classes) - 1
	for m.classes[i].from > bytes {
		i--
	}
	return m.classes[i].by
}

// Has reports whether messages of some length go by an algorithm.
func (m *Menu) Has(by Algorithm) bool {
	return slices.ContainsFunc(m.classes, func(c class) bool { return c.by == by })
}

// Segments is a menu for an explicitly chosen tree: over the tree, in segments from a length on.
func Segments(from int) *Menu {
	return &Menu{Memory: -1, Levels: -1, classes: []class{{0, Binomial}, {from, Pipelined}}}
}

// Menu gives the menu of an operation at a place. It finds it once.
func (t *Table) Menu(op Op, p Place) *Menu {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := key{op, p}
	m := t.menus[k]
	if m == nil {
		m = t.find(op, p)
		t.menus[k] = m
	}
	return m
}

func (t *Table) find(op Op, p Place) *Menu {
	var rules []Rule
	cuts := []int{0, 1}
	for _, r := range t.rules {
		if r.Op != op || !r.at(p) {
			continue
		}
		rules, cuts = append(rules, r), append(cuts, r.Bytes.From)
		if r.Bytes.To < math.MaxInt {
			cuts = append(cuts, r.Bytes.To+1)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	by := func(bytes int, fits func(Algorithm) bool) Algorithm {
		i := slices.IndexFunc(rules, func(r Rule) bool { return r.Bytes.Has(bytes) && fits(r.By) })
		return rules[i].By // the defaults have one for all
	}
	// upTo is the longest length that goes by an algorithm in memory.
	upTo := func(a Algorithm) int {
		if a.Lacks(p) != "" {
			return -1
		}
		for i, bytes := range cuts {
			if by(bytes, func(b Algorithm) bool { return b == a || !b.shared() && (bytes > 0 || op.carries(b)) }) == a {
				continue
			}
			if bytes == 1 { // a class for empty buffers alone is not worth a length header
				return -1
			}
			return cuts[i] - 1
		}
		return math.MaxInt
	}
	m := &Menu{Memory: upTo(Memory), Levels: upTo(Levels)}
	for _, bytes := range cuts {
		a := by(bytes, func(b Algorithm) bool { return !b.shared() && (bytes > 0 || op.carries(b)) })
		if operations[op].oneTree && bytes > 0 && op.carries(a) {
			a = m.First()
		}
		if n := len(m.classes); n == 0 || m.classes[n-1].by != a {
			m.classes = append(m.classes, class{bytes, a})
		}
	}
	return m
}
