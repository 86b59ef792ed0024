package launch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// mapping says which ranks share a node, in the form in which MPICH's
// launchers publish it: "(vector,(0,2,4),(2,1,1))" puts four ranks on node 0,
// four on node 1 and one on node 2; a vector that ends early starts again.
type mapping []block

// block is count nodes from node on, with perNode consecutive ranks each.
type block struct{ node, count, perNode int }

const blocksMax = 4096

// mappingKey is the name under which launchers publish it.
const mappingKey = "PMI_process_mapping"

// oneNode is the mapping of a job on one machine.
func oneNode(size int) mapping { return mapping{{0, 1, size}} }

// String gives the published form.
func (m mapping) String() string {
	var b strings.Builder
	b.WriteString("(vector")
	for _, k := range m {
		fmt.Fprintf(&b, ",(%d,%d,%d)", k.node, k.count, k.perNode)
	}
	b.WriteByte(')')
	return b.String()
}

func parseMapping(text string) (mapping, error) {
	rest, ok := strings.CutPrefix(text, "(vector,(")
	rest, ok2 := strings.CutSuffix(rest, "))")
	if !ok || !ok2 {
		return nil, fmt.Errorf("process mapping %s is not (vector,(…))", excerpt(text))
	}
	var m mapping
	for triple := range strings.SplitSeq(rest, "),(") {
		part := strings.Split(triple, ",")
		if len(part) != 3 || len(m) == blocksMax {
			return nil, fmt.Errorf("process mapping %s: bad or too many blocks", excerpt(text))
		}
		var v [3]int
		for i, p := range part {
			n, err := strconv.Atoi(p)
			if err != nil || n < 0 || n > proc.MaxIDs || i > 0 && n == 0 {
				return nil, fmt.Errorf("process mapping %s: %s in a block", excerpt(text), excerpt(p))
			}
			v[i] = n
		}
		m = append(m, block{v[0], v[1], v[2]})
	}
	return m, nil
}

// nodeOf returns the node of a rank.
//
// Preconditions: m has a block, rank ≥ 0.
func (m mapping) nodeOf(rank int) int {
	period := 0
	for _, k := range m {
		period += k.count * k.perNode
	}
	rank %= period
	for _, k := range m {
		if n := k.count * k.perNode; rank >= n {
			rank -= n
			continue
		}
		return k.node + rank/k.perNode
	}
	panic("launch: a rank beyond the period of its mapping")
}
