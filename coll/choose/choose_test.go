package choose

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// said describes a menu: the shared memory with its longest length, and the algorithms of messages with their
// shortest lengths.
func said(m *Menu) string {
	var words []string
	limit := func(a Algorithm, most int) {
		switch most {
		case -1:
		case math.MaxInt:
			words = append(words, a.String())
		default:
			words = append(words, fmt.Sprintf("%v ..%d", a, most))
		}
	}
	limit(Memory, m.Memory)
	limit(Levels, m.Levels)
	for _, c := range m.classes {
		words = append(words, fmt.Sprintf("%d %v", c.from, c.by))
	}
	return strings.Join(words, ", ")
}

// The choices without a table of the user.
func TestDefaults(t *testing.T) {
	one := func(n int) Place { return Place{Ranks: n, OneNode: true} }
	crowd := func(n int) Place { return Place{Ranks: n, OneNode: true, Crowded: true} }
	several := func(n int) Place { return Place{Ranks: n} }
	for _, c := range []struct {
		op   Op
		at   Place
		want string
	}{
		{Barrier, one(2), "memory, 0 dissemination"},
		{Barrier, several(2), "levels, 0 dissemination"},
		{Bcast, one(16), "memory, 0 straight"},
		{Bcast, one(17), "memory, 0 binomial"},
		{Bcast, crowd(64), "memory, 0 straight"},
		{Bcast, crowd(65), "memory, 0 straight"},
		{Bcast, several(2), "levels, 0 binomial"},
		{Bcast, several(3), "levels ..524287, 0 binomial, 524288 pipelined"},
		{Reduce, one(3), "0 binomial"},
		{Reduce, crowd(4), "0 binomial"},
		{Reduce, crowd(5), "0 knomial"},
		{Reduce, one(128), "0 binomial"},
		{Reduce, several(2), "0 binomial"},
		{Reduce, several(3), "0 binomial, 524288 pipelined"},
		{Allreduce, one(9), "memory, 0 doubling, 16384 halving"},
		{Allreduce, crowd(5), "memory, 0 doubling, 65536 straight"},
		{Allreduce, crowd(8), "memory, 0 doubling, 65536 halving, 1048576 straight"},
		{Allreduce, crowd(9), "memory, 0 doubling, 65536 halving, 2097152 straight"},
		{Allreduce, crowd(17), "memory, 0 doubling, 65536 halving"},
		{Allreduce, several(9), "levels, 0 doubling, 16384 halving"},
		{Gather, one(64), "0 straight"},
		{Gather, one(65), "0 binomial"},
		{Gather, crowd(65), "0 straight"},
		{Scatter, crowd(256), "0 straight"},
		{Scatter, several(4), "0 binomial"},
		{Allgather, crowd(16), "memory, 0 straight"},
		{Allgather, one(17), "memory, 0 doubling"},
		{Allgather, several(4), "levels, 0 doubling"},
		{Allgatherv, one(4), "memory, 0 straight"},
		{Alltoall, several(4), "0 straight"},
		{ReduceScatterBlock, one(400), "memory, 0 straight"},
		{Scan, one(8), "0 doubling"},
		{Scan, crowd(8), "0 doubling, 24576 chain"},
		{Scan, crowd(24), "0 doubling, 6144 chain"},
		{Scan, crowd(25), "0 doubling"},
	} {
		require.Equal(t, c.want, said(Default().Menu(c.op, c.at)), "%v at %+v", c.op, c.at)
	}
	require.False(t, Default().CountsNodes())
}

// Rules of a user precede the defaults, the first matching rule counts, and algorithms that the place lacks are
// skipped.
func TestRules(t *testing.T) {
	at := Place{Ranks: 8, OneNode: true, PerNode: 8, Crowded: true}
	apart := Place{Ranks: 8, PerNode: 4}
	for _, c := range []struct {
		table string
		op    Op
		at    Place
		want  string
	}{
		{"", Bcast, at, "memory, 0 straight"},
		{"# nothing\n\nreduce * * * * binomial", Bcast, at, "memory, 0 straight"},
		{"bcast * * * * binomial", Bcast, at, "0 binomial"},
		{"bcast 9.. * * * binomial\nbcast ..7 * * * binomial", Bcast, at, "memory, 0 straight"},
		{"bcast 8 8 shared 4k.. binomial", Bcast, at, "memory ..4095, 0 straight, 4096 binomial"},
		{"bcast 8 8 own 4k.. binomial", Bcast, at, "memory, 0 straight"},
		{"bcast 8 part * 4k.. binomial", Bcast, at, "memory, 0 straight"},
		{"bcast * * * ..100 memory\nbcast * * * * straight", Bcast, at, "memory ..100, 0 straight"},
		{"bcast * * * * chain", Bcast, at, "0 straight, 1 chain"}, // a chain carries no header
		{"bcast * * * 64k..1m chain", Bcast, apart,
			"levels ..65535, 0 binomial, 65536 chain, 1048577 pipelined"},
		{"bcast * * * * levels", Bcast, at, "memory, 0 straight"}, // there are none
		{"allreduce * 5.. * * doubling", Allreduce, apart, "levels, 0 doubling, 16384 halving"},
		{"allreduce * 4.. * * doubling", Allreduce, apart, "0 doubling"},
		{"allgather 2..8 2..4 * 1k.. ring\nallgather * * * 8k.. straight", Allgather, apart, "levels ..1023, 0 doubling, 1024 ring"},
		{"barrier * * * * binomial", Barrier, at, "0 binomial"},
		{"reduce * * * 64k.. binomial", Reduce, at, "0 knomial"}, // one tree for all lengths
		{"reduce * * * 64k..1m pipelined", Reduce, at, "0 knomial, 65536 pipelined, 1048577 knomial"},
	} {
		table, err := Parse("t", c.table)
		require.NoError(t, err)
		require.Equal(t, c.want, said(table.Menu(c.op, c.at)), "%s\n%v at %+v", c.table, c.op, c.at)
		require.Same(t, table.Menu(c.op, c.at), table.Menu(c.op, c.at))
	}
}

// Each wrong line has an error with its number, the cause and the possible values.
func TestWrongTables(t *testing.T) {
	for text, want := range map[string]string{
		"bcast * * *":                                           `t:1: 4 fields: want six: operation, ranks, per-node, cores, bytes, algorithm`,
		"\n# x\nbcst * * * * memory":                            `t:3: there is no choice for an operation "bcst": take one of barrier, bcast, `,
		"bcast * * * * halving":                                 `t:1: bcast has no algorithm halving: take one of memory, levels, binomial, straight, pipelined, chain`,
		"bcast * * * * fast":                                    `t:1: there is no algorithm "fast": take one of memory, levels, `,
		"bcast 4..2 * * * straight":                             `t:1: ranks: "4..2": write *, N, N.., ..N or N..M, with N up to M`,
		"bcast .. * * * straight":                               `t:1: ranks: "..": write *, N`,
		"bcast 4k * * * straight":                               `t:1: ranks: "4k": want a number, or *, N.., ..N or N..M`,
		"bcast * some * * straight":                             `t:1: per-node: "some": want a number, or *, N.., ..N or N..M, or all or part`,
		"bcast * * few * straight":                              `t:1: cores: "few": write *, own or shared`,
		"bcast * * * 4x straight":                               `t:1: bytes: "4x": want a number of bytes, as 4096 or 4k, or *, N.., ..N or N..M`,
		"bcast * * * 99999999999999999999 chain":                `t:1: bytes: "99999999999999999999": want a number of bytes`,
		"bcast * * * 9999999999999999g.. chain":                 `t:1: bytes: "9999999999999999g": want a number of bytes`,
		"barrier * * * 8 memory":                                `t:1: barrier has no bytes: write *`,
		"bcast * * * 8..64 memory":                              `t:1: bytes: memory takes the shortest lengths: write ..64`,
		"gather * * * 8.. straight":                             `t:1: bytes: messages of gather go one way whatever their length`,
		"bcast\nreduce * * * * chain":                           "t:1: 1 fields: want six: operation, ranks, per-node, cores, bytes, algorithm\nt:2: reduce has no algorithm chain: take one of binomial, knomial, pipelined",
		strings.Repeat("reduce * * * * binomial\n", maxRules+1): `t:4097: more than 4096 rules`,
	} {
		_, err := Parse("t", text)
		require.ErrorContains(t, err, want)
	}
}

// randomTable is a table of some valid rules.
func randomTable(r *rand.Rand) string {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	var b strings.Builder
	for range r.IntN(12) {
		op := Op(r.IntN(int(NumOps)))
		all := op.Algorithms()
		by, bytes := all[r.IntN(len(all))], "*"
		switch {
		case !op.Sized():
		case by.shared():
			bytes = pick("*", "..8", "..100", "..2k")
		case len(operations[op].later) > 0:
			bytes = pick("*", "8..", "..64", "61", "100..999", "4k..", "1..")
		}
		fmt.Fprintf(&b, "%v %s %s %s %s %v\n", op, pick("*", "..3", "4", "2..", "5..9"), pick("*", "all", "part", "..2", "3.."),
			pick("*", "own", "shared"), bytes, by)
	}
	return b.String()
}

// A menu contains for each length the first rule that fits, except for the shortest lengths of algorithms that
// cannot carry headers, and for the tree of an operation that has one for all lengths.
func TestMenusAgainstRules(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		text := randomTable(r)
		table, err := Parse("t", text)
		require.NoError(t, err, text)
		p := Place{Ranks: 1 + r.IntN(9), OneNode: r.IntN(2) == 0, Crowded: r.IntN(2) == 0}
		if p.PerNode = p.Ranks; !p.OneNode {
			p.PerNode = 1 + r.IntN(p.Ranks)
		}
		for op := range NumOps {
			m := table.Menu(op, p)
			require.True(t, op.carries(m.First()), "%v: %s", op, text)
			for _, bytes := range []int{1, 7, 8, 9, 60, 61, 62, 64, 65, 99, 100, 101, 999, 1000, 2048, 2049, 4096, 1 << 30} {
				var want Algorithm
				for _, rule := range table.rules {
					if rule.Op == op && rule.at(p) && rule.Bytes.Has(bytes) && !rule.By.shared() {
						want = rule.By
						break
					}
				}
				if operations[op].oneTree && op.carries(want) {
					want = m.First()
				}
				require.Equal(t, want, m.At(bytes), "%v of %d bytes at %+v by %s", op, bytes, p, text)
			}
		}
	}
}

// Any text gives errors with the numbers of lines, or rules that parse again as they are printed, and of which every
// place has a usable menu.
func FuzzParse(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomTable(rand.New(rand.NewPCG(seed, 2))))
	}
	f.Add("bcast\t..16 all * 1g.. chain # x\r\n\xff")
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := ParseRange(text); err == nil {
			require.LessOrEqual(t, r.From, r.To)
		}
		table, err := Parse("t", text)
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				require.Regexp(t, `^t:\d+: `, line)
			}
			return
		}
		again, err := Parse("t", table.String())
		require.NoError(t, err)
		require.Equal(t, table.rules, again.rules[:len(table.rules)])
		require.Equal(t, parsed(t, table.String()).Sum(), again.Sum())
		for op := range NumOps {
			for _, p := range []Place{{1, true, 1, false}, {5, true, 5, true}, {6, false, 3, false}, {2, false, 1, false}} {
				m := table.Menu(op, p)
				require.True(t, op.carries(m.First()))
				for _, bytes := range []int{0, 1, 61, 1 << 20, math.MaxInt} {
					require.Contains(t, op.Algorithms(), m.At(bytes))
				}
				require.False(t, m.Memory >= 0 && m.Levels >= 0)
			}
		}
	})
}

// parsed is a table without errors.
func parsed(t *testing.T, text string) *Table {
	table, err := Parse("t", text)
	require.NoError(t, err)
	return table
}
