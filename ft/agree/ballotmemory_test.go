package agree

import (
	"fmt"
	"hash/maphash"

	"github.com/banyan-hpc/banyan/fabric/board"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// ballotMemory is the shared memory of a world's ballots.
type ballotMemory struct{ all []ballotCells }

type ballotCells struct {
	owner   proc.ID
	members int
	cells   []board.Cell
}

// testSection has ballots of three members have two sections.
const testSection = 2

// clone copies the cells.
func (s *ballotMemory) clone() *ballotMemory {
	c := &ballotMemory{}
	for _, b := range s.all {
		b.cells = board.Copy(b.cells)
		c.all = append(c.all, b)
	}
	return c
}

// print hashes the cells.
func (s *ballotMemory) print(h *maphash.Hash) {
	for _, b := range s.all {
		fmt.Fprint(h, "board", b.owner, board.Dump(b.cells))
	}
}

// ballotAccess is a member's access to the ballots' memory.
type ballotAccess struct {
	*ballotMemory
	self proc.ID
	met  bool // it can reach all
}

func (h *ballotAccess) Reach(proc.ID) bool { return h.met }

func (h *ballotAccess) Make(members int, next uint32) (name uint64, ok bool) {
	cells := make([]board.Cell, board.CellsOf(members, testSection))
	board.Format(cells, uint32(len(h.all)+1), next)
	h.all = append(h.all, ballotCells{h.self, members, cells})
	return uint64(len(h.all)), true
}

func (h *ballotAccess) Open(owner proc.ID, name uint64, members int) *board.Ballot {
	if name == 0 || name > uint64(len(h.all)) || h.all[name-1].owner != owner || h.all[name-1].members != members {
		return nil
	}
	return board.Use(h.all[name-1].cells, members, testSection, uint32(name))
}

func (h *ballotAccess) Drop(uint64) {}

// ripe reports whether a member that waits at ballots has something to look at.
func (m *Machine) ripe() bool {
	for _, l := range m.atBallots {
		if l.scan() != board.Empty {
			return true
		}
	}
	return false
}
