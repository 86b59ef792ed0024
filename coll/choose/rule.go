package choose

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Range has all numbers from From to To, both in it.
type Range struct{ From, To int }

// All has all numbers.
var All = Range{0, math.MaxInt}

// Has reports whether a number is in it.
func (r Range) Has(v int) bool { return r.From <= v && v <= r.To }

// Span is a condition on the nodes of ranks, beside their number on each.
type Span uint8

// The spans.
const (
	AnyNodes     Span = iota
	OneNode           // all ranks are on one node
	SeveralNodes      // they are not
)

// Cores is a condition on the cores of ranks.
type Cores uint8

// The conditions.
const (
	AnyCores    Cores = iota
	OwnCores          // there are as many as ranks, or the job has several nodes
	SharedCores       // all ranks of the job are on one node that has fewer
)

// Rule is a line of a table.
type Rule struct {
	Op    Op
	Ranks Range
	// PerNode bounds the most ranks on a node. Of OneNode and SeveralNodes it is All.
	PerNode Range
	Span    Span
	Cores   Cores
	Bytes   Range
	By      Algorithm
}

// Force returns the rule by which an operation always uses an algorithm, if the place has it.
func Force(op Op, by Algorithm) Rule {
	return Rule{Op: op, Ranks: All, PerNode: All, Bytes: All, By: by}
}

// Place is a communicator, as far as choices depend on it. It is the same at all members.
type Place struct {
	Ranks   int
	OneNode bool
	PerNode int // the largest number of ranks on a node; 0: not counted, see Table.CountsNodes
	Crowded bool
}

// at reports whether the rule is one for a place.
func (r *Rule) at(p Place) bool {
	switch {
	case !r.Ranks.Has(p.Ranks), r.Span == OneNode && !p.OneNode, r.Span == SeveralNodes && p.OneNode,
		r.Cores == SharedCores && !p.Crowded, r.Cores == OwnCores && p.Crowded:
		return false
	}
	return r.PerNode == All || r.PerNode.Has(p.PerNode)
}

// maxRules bounds the comparisons of a choice.
const maxRules = 4096

// parseRules parses the lines of a table. The errors name each wrong line and the possible values.
func parseRules(name, text string) ([]Rule, error) {
	var rules []Rule
	var errs []error
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		r, err := parseRule(words)
		if err == nil && len(rules) == maxRules {
			err = fmt.Errorf("more than %d rules: leave out those that never count", maxRules)
			return nil, errors.Join(append(errs, fmt.Errorf("%s:%d: %w", name, n, err))...)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", name, n, err))
		}
		rules = append(rules, r)
	}
	return rules, errors.Join(errs...)
}

func parseRule(words []string) (r Rule, err error) {
	if len(words) != 6 {
		return r, fmt.Errorf("%d fields: want six: operation, ranks, per-node, cores, bytes, algorithm", len(words))
	}
	if r.Op, err = ParseOp(words[0]); err != nil {
		return r, err
	}
	if r.Ranks, err = parseRange(words[1], false); err != nil {
		return r, fmt.Errorf("ranks: %w", err)
	}
	if r.PerNode = All; words[2] == "all" {
		r.Span = OneNode
	} else if words[2] == "part" {
		r.Span = SeveralNodes
	} else if r.PerNode, err = parseRange(words[2], false); err != nil {
		return r, fmt.Errorf("per-node: %w, or all or part", err)
	}
	if r.Cores, err = parseCores(words[3]); err != nil {
		return r, err
	}
	if r.Bytes, err = parseRange(words[4], true); err != nil {
		return r, fmt.Errorf("bytes: %w", err)
	}
	if r.By, err = ParseAlgorithm(words[5]); err != nil {
		return r, err
	}
	return r, r.check()
}

// check finds combinations that the operation does not have.
func (r *Rule) check() error {
	o := &operations[r.Op]
	switch {
	case !slices.Contains(r.Op.Algorithms(), r.By):
		return fmt.Errorf("%v has no algorithm %v: take one of %s", r.Op, r.By, join(r.Op.Algorithms()))
	case r.Bytes == All:
		return nil
	case !r.Op.Sized():
		return fmt.Errorf("%v has no bytes: write *", r.Op)
	case r.By.shared() && r.Bytes.From > 0:
		return fmt.Errorf("bytes: %v takes the shortest lengths: write ..%s", r.By, formatBytes(r.Bytes.To))
	case !r.By.shared() && len(o.later) == 0:
		return fmt.Errorf("bytes: messages of %v go one way whatever their length, of which ranks do not inform each other: write *", r.Op)
	}
	return nil
}

func join(all []Algorithm) string {
	words := make([]string, len(all))
	for i, a := range all {
		words[i] = a.String()
	}
	return strings.Join(words, ", ")
}

var cores = [...]string{AnyCores: "*", OwnCores: "own", SharedCores: "shared"}

func parseCores(word string) (Cores, error) {
	for c, name := range cores {
		if name == word {
			return Cores(c), nil
		}
	}
	return 0, fmt.Errorf("cores: %.32q: write *, own or shared", word)
}

// ParseRange reads a range of ranks, as tables have them.
func ParseRange(word string) (Range, error) { return parseRange(word, false) }

// parseRange reads *, N, N.., ..N or N..M.
func parseRange(word string, bytes bool) (r Range, err error) {
	if word == "*" {
		return All, nil
	}
	from, to, several := strings.Cut(word, "..")
	r = All
	if from != "" {
		if r.From, err = parseNumber(from, bytes); err != nil {
			return r, err
		}
	}
	switch {
	case !several:
		r.To = r.From
	case to != "":
		if r.To, err = parseNumber(to, bytes); err != nil {
			return r, err
		}
	}
	if from == "" && to == "" || r.From > r.To {
		return r, fmt.Errorf("%.32q: write *, N, N.., ..N or N..M, with N up to M", word)
	}
	return r, nil
}

// suffixes of numbers of bytes, the largest first.
var suffixes = []struct {
	letter string
	unit   int
}{{"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}}

func parseNumber(word string, bytes bool) (int, error) {
	digits, unit := word, 1
	for _, s := range suffixes {
		if number, ok := strings.CutSuffix(word, s.letter); ok && bytes {
			digits, unit = number, s.unit
		}
	}
	v, err := strconv.ParseUint(digits, 10, 62)
	if err != nil || v > uint64(math.MaxInt-1)/uint64(unit) {
		kind := "a number"
		if bytes {
			kind = "a number of bytes, as 4096 or 4k"
		}
		return 0, fmt.Errorf("%.32q: want %s, or *, N.., ..N or N..M", word, kind)
	}
	return int(v) * unit, nil
}

func formatBytes(v int) string {
	for _, s := range suffixes {
		if v != 0 && v%s.unit == 0 {
			return strconv.Itoa(v/s.unit) + s.letter
		}
	}
	return strconv.Itoa(v)
}

func (r Range) text(format func(int) string) string {
	switch {
	case r == All:
		return "*"
	case r.From == r.To:
		return format(r.From)
	case r.To == math.MaxInt:
		return format(r.From) + ".."
	case r.From == 0:
		return ".." + format(r.To)
	}
	return format(r.From) + ".." + format(r.To)
}

// String formats the rule as a line of a table.
func (r Rule) String() string {
	node := r.PerNode.text(strconv.Itoa)
	switch r.Span {
	case OneNode:
		node = "all"
	case SeveralNodes:
		node = "part"
	}
	return fmt.Sprintf("%-20s  %-7s  %-8s  %-6s  %-12s  %v",
		r.Op, r.Ranks.text(strconv.Itoa), node, cores[r.Cores], r.Bytes.text(formatBytes), r.By)
}
