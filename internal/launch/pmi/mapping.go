package pmi

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// Mapping assigns ranks to nodes, in the form of MPICH's launchers: "(vector,(0,2,4),(2,1,1))" puts
// four ranks on node 0, four on node 1 and one on node 2; a vector that ends early starts again.
type Mapping []Block

// Block is count nodes from node on, with perNode consecutive ranks each.
type Block struct{ Node, Count, PerNode int }

const blocksMax = 4096

// MappingKey is the key under which launchers publish it.
const MappingKey = "PMI_process_mapping"

// Nodes is the mapping of count nodes with perNode consecutive ranks each.
func Nodes(count, perNode int) Mapping { return Mapping{{0, count, perNode}} }

// String returns the published form.
func (m Mapping) String() string {
	var b strings.Builder
	b.WriteString("(vector")
	for _, k := range m {
		fmt.Fprintf(&b, ",(%d,%d,%d)", k.Node, k.Count, k.PerNode)
	}
	b.WriteByte(')')
	return b.String()
}

// ParseMapping is the inverse of String.
func ParseMapping(text string) (Mapping, error) {
	rest, ok := strings.CutPrefix(text, "(vector,(")
	rest, ok2 := strings.CutSuffix(rest, "))")
	if !ok || !ok2 {
		return nil, fmt.Errorf("process mapping %s is not (vector,(…))", Excerpt(text))
	}
	var m Mapping
	for triple := range strings.SplitSeq(rest, "),(") {
		part := strings.Split(triple, ",")
		if len(part) != 3 || len(m) == blocksMax {
			return nil, fmt.Errorf("process mapping %s: bad or too many blocks", Excerpt(text))
		}
		var v [3]int
		for i, p := range part {
			n, err := strconv.Atoi(p)
			if err != nil || n < 0 || n > proc.MaxIDs || i > 0 && n == 0 {
				return nil, fmt.Errorf("process mapping %s: %s in a block", Excerpt(text), Excerpt(p))
			}
			v[i] = n
		}
		m = append(m, Block{v[0], v[1], v[2]})
	}
	return m, nil
}

// NodeOf returns the node of a rank.
//
// Preconditions: m has a block, rank ≥ 0.
func (m Mapping) NodeOf(rank int) int {
	period := 0
	for _, k := range m {
		period += k.Count * k.PerNode
	}
	rank %= period
	for _, k := range m {
		if n := k.Count * k.PerNode; rank >= n {
			rank -= n
			continue
		}
		return k.Node + rank/k.PerNode
	}
	panic("launch: a rank beyond the period of its mapping")
}
