package collectives

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/p2p"
)

// Any text for trees and their design is one that the package prints, or an error of a wrong argument.
func FuzzTrees(f *testing.F) {
	for _, word := range []string{"auto", "binomial", "knomial:4", "knomial:+4", "knomial:1", "node", "rebalance"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if chosen, err := banyan.ParseTree(word); err != nil {
			require.ErrorIs(t, err, banyan.ErrArgument)
		} else {
			again, err := banyan.ParseTree(chosen.String())
			require.NoError(t, err)
			require.Equal(t, chosen, again)
			choice, err := job.WithTree(coll.Choice{}, word)
			require.NoError(t, err)
			require.Equal(t, choice.Auto, chosen == banyan.AutoTree)
			if !choice.Auto {
				require.Equal(t, choice.Shape.String(), chosen.String())
			}
		}
		if d, err := banyan.ParseDesign(word); err == nil {
			require.Equal(t, word, d.String())
		} else {
			require.ErrorIs(t, err, banyan.ErrArgument)
		}
	})
}

// FuzzCollective: a member sends the others any bytes in the place of its messages of a collective, among them
// invalid headers of lengths, and leaves. The others return, with an error of a class or a result, and write
// nothing beyond their buffers.
func FuzzCollective(f *testing.F) {
	const wants, long = 61, 1 << 15 // as long as a header; this and more: in segments
	header := append([]byte("banyan: a long message follows in another way; bytes:"), 0, 0, 16, 0, 0, 0, 0, 0)
	for op := range uint8(2 * len(meddlings)) {
		var headers, shorts, right []byte
		for tag := range byte(4) { // one of them is the operation's
			right = append(append(append(right, tag, wants), header[:53]...), wants, 0, 0, 0, 0, 0, 0, 0)
			right = append(append(right, tag, wants), make([]byte, wants)...)
			headers = append(append(headers, tag, wants), header...)
			shorts = append(shorts, tag, 3, 1, 2, 3, tag, 0)
		}
		for _, length := range []uint16{8, wants, long} {
			f.Add(op, op/2%2 == 0, headers, length)
			f.Add(op, op/2%2 == 1, shorts, length)
		}
		f.Add(op, true, right, uint16(wants))
		header[58+op%3] += 0x7f
	}
	f.Fuzz(func(t *testing.T, op uint8, chain bool, script []byte, length uint16) {
		act, nonblocking := meddlings[int(op/2)%len(meddlings)], op%2 == 1
		apart := job.Simulation{Configure: oneEach}
		require.NoError(t, job.Simulate(3, apart, new(job.Options), func(j *job.Job) error {
			o := &coll.Comm{Trees: coll.Trees{Choice: j.Trees, World: j.Coll}}
			if chain {
				o.Set(coll.Choice{Design: tree.Rebalance, Shape: tree.Chain})
			}
			var err error
			if j.World.Rank() == 1 {
				err = disturb(j.World.Coll(), act.kind, script)
			} else {
				n := int(length)
				if n >= long {
					n += 512 << 10
				}
				err = meddled(act, nonblocking, o, j.World, n)
			}
			return errors.Join(err, j.Finalize(func() error { return nil }, func() {}))
		}))
	})
}

// meddling is a collective of n bytes in which another rank sends anything: buf has n, all 3n of them.
type meddling struct {
	kind coll.Kind
	call func(o *coll.Comm, c *p2p.Comm, buf, all []byte) error
	// start is the same that does not block.
	start func(o *coll.Comm, c *p2p.Comm, buf, all []byte) p2p.Handle
}

var keepLast = coll.Fold{Op: func(acc, in []byte) { copy(acc, in) }}

var meddlings = []meddling{
	{coll.Bcast, func(o *coll.Comm, c *p2p.Comm, buf, _ []byte) error { return o.Bcast(c, coll.Call{}, buf, 1) },
		func(o *coll.Comm, c *p2p.Comm, buf, _ []byte) p2p.Handle { return o.Ibcast(c, coll.Call{}, buf, 1) }},
	{coll.Reduce, func(o *coll.Comm, c *p2p.Comm, buf, _ []byte) error {
		return o.Reduce(c, coll.Call{}, buf, buf, keepLast, 0)
	}, func(o *coll.Comm, c *p2p.Comm, buf, _ []byte) p2p.Handle {
		return o.Ireduce(c, coll.Call{}, buf, buf, keepLast, 0)
	}},
	{coll.Allreduce, func(o *coll.Comm, c *p2p.Comm, buf, _ []byte) error {
		return o.Allreduce(c, coll.Call{}, buf, buf, keepLast)
	}, func(o *coll.Comm, c *p2p.Comm, buf, _ []byte) p2p.Handle {
		return o.Iallreduce(c, coll.Call{}, buf, buf, keepLast)
	}},
	{coll.Gather, func(o *coll.Comm, c *p2p.Comm, buf, all []byte) error { return o.Gather(c, coll.Call{}, buf, all, 0) },
		func(o *coll.Comm, c *p2p.Comm, buf, all []byte) p2p.Handle {
			return o.Igather(c, coll.Call{}, buf, all, 0)
		}},
	{coll.Scatter, func(o *coll.Comm, c *p2p.Comm, buf, all []byte) error { return o.Scatter(c, coll.Call{}, all, buf, 1) },
		func(o *coll.Comm, c *p2p.Comm, buf, all []byte) p2p.Handle {
			return o.Iscatter(c, coll.Call{}, all, buf, 1)
		}},
	{coll.Allgather, func(o *coll.Comm, c *p2p.Comm, buf, all []byte) error { return o.Allgather(c, coll.Call{}, buf, all) },
		func(o *coll.Comm, c *p2p.Comm, buf, all []byte) p2p.Handle {
			return o.Iallgather(c, coll.Call{}, buf, all)
		}},
	exchanging(coll.Alltoall, func(_, all []byte) coll.Args { return coll.Args{In: slices.Clone(all), Out: all} }),
	exchanging(coll.Allgatherv, func(buf, all []byte) coll.Args { return coll.Args{In: buf, To: thirds(all)} }),
	exchanging(coll.Gatherv, func(buf, all []byte) coll.Args { return coll.Args{In: buf, To: thirds(all)} }),
	exchanging(coll.Scatterv, func(buf, all []byte) coll.Args {
		return coll.Args{From: thirds(all), Out: buf, Root: 1}
	}),
	exchanging(coll.ReduceScatterBlock, func(buf, all []byte) coll.Args {
		return coll.Args{In: all, Out: buf, Fold: keepLast}
	}),
	exchanging(coll.ReduceScatter, func(buf, all []byte) coll.Args {
		return coll.Args{In: all, Out: buf, Counts: []int{len(buf), len(buf), len(buf)}, Fold: keepLast}
	}),
	exchanging(coll.Scan, func(buf, _ []byte) coll.Args { return coll.Args{In: buf, Out: buf, Fold: keepLast} }),
	exchanging(coll.Exscan, func(buf, _ []byte) coll.Args { return coll.Args{In: buf, Out: buf, Fold: keepLast} }),
	exchanging(coll.Alltoallv, func(_, all []byte) coll.Args {
		return coll.Args{From: thirds(slices.Clone(all)), To: thirds(all)}
	}),
}

// thirds are blocks for three ranks.
func thirds(all []byte) coll.Blocks {
	n := len(all) / 3
	return coll.BlocksOf([][]byte{all[:n:n], all[n : 2*n : 2*n], all[2*n:]})
}

// exchanging is the meddling of an operation that has arguments of its own.
func exchanging(k coll.Kind, args func(buf, all []byte) coll.Args) meddling {
	return meddling{k,
		func(o *coll.Comm, c *p2p.Comm, buf, all []byte) error { return o.Do(c, coll.Call{}, k, args(buf, all)) },
		func(o *coll.Comm, c *p2p.Comm, buf, all []byte) p2p.Handle {
			return o.Start(c, coll.Call{}, k, args(buf, all))
		}}
}

// meddled does a collective of n bytes.
func meddled(act meddling, nonblocking bool, o *coll.Comm, c *p2p.Comm, n int) error {
	memory := slices.Repeat([]byte{0xa5}, 5*n+64)
	buf, all := memory[:n:n], memory[2*n:5*n:5*n]
	var err error
	if nonblocking {
		_, err = c.Engine().Wait(act.start(o, c, buf, all))
	} else {
		err = act.call(o, c, buf, all)
	}
	beyond := func(part []byte) bool { return bytes.Count(part, []byte{0xa5}) != len(part) }
	if beyond(memory[n:2*n]) || beyond(memory[5*n:]) {
		return fmt.Errorf("bytes beyond the buffers are written")
	}
	classes := []error{banyan.ErrProcFailed, banyan.ErrDeparted, banyan.ErrRevoked, banyan.ErrClosed, banyan.ErrArgument}
	if err != nil && !slices.ContainsFunc(classes, func(class error) bool { return errors.Is(err, class) }) {
		return err
	}
	return nil
}

// disturb sends messages to all others: tag, length, bytes. Tags are those of the blocking operation and of the
// non-blocking one, with two roots.
func disturb(c *p2p.Comm, k coll.Kind, script []byte) error {
	tags := [...]int{p2p.BlockingTag(k.Tag(), 0), p2p.BlockingTag(k.Tag(), 1), p2p.TagOf(0), p2p.WithRoot(p2p.TagOf(0), 1)}
	for len(script) >= 2 {
		n := min(int(script[1]), len(script)-2)
		for _, to := range []int{0, 2} {
			p2p.Isend[p2p.Aware](c, script[2:2+n], to, tags[script[0]%4])
		}
		script = script[2+n:]
	}
	return nil
}
