package osu

import (
	"fmt"
	"slices"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/pattern"
)

// fan is this rank's side of a congested link: one rank and the ranks of the other nodes that have its place there.
// All ranks of the first node are such centers. On one node rank 0 is the only one.
type fan struct {
	peers []int // of a center all others, of another rank its center
	sends bool
}

// openFan makes this rank's side. in: the centers receive. It is collective.
func openFan(w *banyan.World, o *Options, in bool) (*Pair, error) {
	n := w.Comm().Size()
	nodes := make([]int, n)
	for rank := range nodes {
		nodes[rank] = w.Node(rank)
	}
	centers, err := centersOf(nodes)
	if err != nil {
		return nil, err
	}
	p, err := newPair(w, 1, &Options{Max: o.Max, Window: o.Window, Multiple: o.Multiple})
	if err != nil {
		return nil, err
	}
	me := w.Comm().Rank()
	p.first, p.ranks, p.pairs = me == 0, n, n-len(slices.Compact(slices.Sorted(slices.Values(centers))))
	p.fan = &fan{sends: (centers[me] == me) != in}
	for rank, center := range centers {
		switch {
		case rank != me && center == me:
			p.fan.peers = append(p.fan.peers, rank)
		case rank == me && center != me:
			p.fan.peers = []int{center}
		}
	}
	p.reqs = make([]banyan.Request, o.Window*len(p.fan.peers))
	return p, nil
}

// centersOf returns the center of each rank, given the node of each.
func centersOf(nodes []int) ([]int, error) {
	ranks := map[int][]int{} // of a node
	for rank, node := range nodes {
		ranks[node] = append(ranks[node], rank)
	}
	centers := make([]int, len(nodes))
	if len(ranks) == 1 {
		return centers, nil
	}
	first := ranks[nodes[0]]
	for node, there := range ranks {
		if len(there) != len(first) {
			return nil, fmt.Errorf("nodes %d and %d have %d and %d ranks, as many are needed: start as many on each node",
				nodes[0], node, len(first), len(there))
		}
		for place, rank := range there {
			centers[rank] = first[place]
		}
	}
	return centers, nil
}

func fanPass(o *Options) pass {
	unit := func(p *Pair, size int) error {
		return p.fanWindow(p.sbuf[:size], p.rbuf[:size], o.Window)
	}
	return pass{
		run: func(p *Pair, size, n int) (time.Duration, error) {
			return p.timed(func() error {
				for range n {
					if err := unit(p, size); err != nil {
						return err
					}
				}
				return p.sync()
			})
		},
		singles: oneByOne(unit),
		check: func(p *Pair, size int, round byte) (int, error) {
			return p.checkFan(size, o.Window, round)
		},
		perCheck: 1, count: o.Window, abreast: 1, total: true,
	}
}

// fanWindow moves a window between each center and its peers, which answer or are answered.
func (p *Pair) fanWindow(s, r []byte, window int) error {
	reqs := p.reqs[:0]
	for i := range window {
		for _, peer := range p.fan.peers {
			if p.fan.sends {
				reqs = append(reqs, p.c.Isend(p.nth(s, i), peer, tagData))
			} else {
				reqs = append(reqs, p.c.Irecv(p.nth(r, i), peer, tagData))
			}
		}
	}
	if err := banyan.WaitAll(reqs); err != nil {
		return err
	}
	return p.answer()
}

// answer ends a window: its receivers send a short message to its senders.
func (p *Pair) answer() error {
	for _, peer := range p.fan.peers {
		var err error
		if p.fan.sends {
			_, err = p.c.Recv(p.word[:], peer, tagAck)
		} else {
			err = p.c.Send(p.word[:], peer, tagAck)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkFan is a window in which each message has a pattern and a buffer of its own, as far as windowMemory goes.
func (p *Pair) checkFan(size, window int, round byte) (wrong int, err error) {
	peers := p.fan.peers
	n := min(window, max(1, windowMemory/max(1, size)/max(1, p.c.Size()-1))) // the same on both sides
	all := buffers(n*len(peers), size)
	seed := func(i int) byte { // of the sender of a message and its place
		sender := peers[i%len(peers)]
		if p.fan.sends {
			sender = p.c.Rank()
		}
		return round + byte(29*sender+7*(i/len(peers)))
	}
	reqs := p.reqs[:0]
	for i, b := range all {
		if peer := peers[i%len(peers)]; p.fan.sends {
			pattern.Fill(b, seed(i))
			reqs = append(reqs, p.c.Isend(b, peer, tagData))
		} else {
			pattern.Spoil(b, seed(i))
			reqs = append(reqs, p.c.Irecv(b, peer, tagData))
		}
	}
	if err = banyan.WaitAll(reqs); err != nil {
		return 0, err
	}
	for i, b := range all {
		if !p.fan.sends {
			wrong += pattern.Wrong(b, seed(i))
		}
	}
	return wrong, p.sync()
}
