package banyan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// Whatever a leader passes on as its verdict: no error, or one of a class that can be printed; and an error
// that was written is read again.
func FuzzVerdict(f *testing.F) {
	lost := &ProcFailedError{Comm: "world", Ranks: []int{3}, Local: []int{1, 2}, Cause: proc.Cause{Kind: proc.Signaled, Code: 9}}
	for _, err := range []error{nil, ErrDeparted, errors.New("x"), lost} {
		b := make([]byte, verdictLen)
		encodeVerdict(b, err)
		f.Add(b)
	}
	hostile := slices.Repeat([]byte{0xff}, verdictLen)
	hostile[0], hostile[6], hostile[7] = 1, verdictRanks, 0
	f.Add(hostile)
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(b, make([]byte, verdictLen)...)[:verdictLen]
		err := decodeVerdict(b, "merge")
		require.Equal(t, b[0] == 0, err == nil)
		if err == nil {
			return
		}
		for _, r := range err.Error() {
			require.True(t, r >= ' ' && r != 0x7f, "%q", err.Error())
		}
		failed, ok := errors.AsType[*ProcFailedError](err)
		if !ok {
			require.True(t, err == errLeader || slices.Contains(classes[:], err))
			return
		}
		require.LessOrEqual(t, len(failed.Ranks)+len(failed.Local), verdictRanks)
		again := make([]byte, verdictLen)
		encodeVerdict(again, err)
		if len(failed.Comm) <= verdictName {
			require.Equal(t, err, decodeVerdict(again, "merge"))
		}
	})
}

// Whatever another side's leader announces and sends: a group of processes that are not on this side, each
// once, or an error; and no memory beyond that for all processes that there can be.
func FuzzMeeting(f *testing.F) {
	word := binary.LittleEndian.AppendUint64
	f.Add(word(word(nil, 8), 7), []byte{2, 0, 0, 0, 3, 0, 0, 0})
	f.Add(word(word(nil, 1<<40), 7), []byte{})
	f.Add(word(word(nil, 6), 7), []byte{2, 0, 0, 0, 3, 0})
	f.Add(word(word(nil, 8), 7), []byte{2, 0, 0, 0, 2, 0, 0, 0})
	f.Fuzz(func(t *testing.T, first, list []byte) {
		if n, _, err := parseMeeting(first); err == nil {
			require.True(t, 0 < n && n <= 4*proc.MaxIDs && n%4 == 0)
		} else {
			require.ErrorIs(t, err, ErrArgument)
		}
		here := p2p.WorldGroup(2)
		g, err := decodeGroup(list, here)
		if err != nil {
			require.ErrorIs(t, err, ErrArgument)
			return
		}
		var again []byte
		for _, p := range g.Procs() {
			require.Negative(t, here.Rank(p))
			again = binary.LittleEndian.AppendUint32(again, uint32(p))
		}
		require.Equal(t, string(list), string(again))
	})
}

// A leader that announces a group of more processes than there can be is refused by the ranks of its own side
// too, before they take memory for it.
func TestMeetingOfAbsurdLength(t *testing.T) {
	for _, length := range []uint64{0, 6, 1 << 40, 1 << 63} {
		require.NoError(t, Simulate(2, Simulation{}, func(w *World) error {
			c := w.Comm()
			if c.Rank() == 0 {
				b := binary.LittleEndian.AppendUint64(nil, length)
				return c.bcast(append(b, make([]byte, meetLen-8+verdictLen)...), 0)
			}
			if _, err := c.CreateInter(0, nil, 0, 9); !errors.Is(err, ErrArgument) {
				return fmt.Errorf("%d bytes: %w", length, err)
			}
			return nil
		}))
	}
}

// Whatever the ranks give to a split, those of a color are listed once, by key and rank.
func FuzzColors(f *testing.F) {
	give := func(words ...int64) (b []byte) {
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, uint64(w))
		}
		return b
	}
	f.Add(give(1, 5, 0, 0, 1, -5), 1)
	f.Add(give(int64(Undefined), 5), Undefined)
	f.Fuzz(func(t *testing.T, all []byte, color int) {
		ranks := decodeColors(all, color)
		require.True(t, color != Undefined || ranks == nil)
		of := func(rank, at int) int64 { return int64(binary.LittleEndian.Uint64(all[colorBytes*rank+at:])) }
		for i, rank := range ranks {
			require.Equal(t, int64(color), of(rank, 0))
			if i > 0 {
				before := ranks[i-1]
				require.True(t, of(before, 8) < of(rank, 8) || of(before, 8) == of(rank, 8) && before < rank)
			}
		}
	})
}

// Whatever word a user gives for trees and their design is one that it is written as, or an error of a wrong
// argument.
func FuzzTrees(f *testing.F) {
	for _, word := range []string{"auto", "binomial", "knomial:4", "knomial:+4", "knomial:1", "node", "rebalance"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		choice, err := job.WithTree(coll.Choice{}, word)
		switch {
		case err != nil:
			require.ErrorIs(t, err, ErrArgument)
		case choice.Auto:
			require.Equal(t, job.AutoTree, word)
		default:
			again, err := job.WithTree(coll.Choice{}, choice.Shape.String())
			require.NoError(t, err)
			require.Equal(t, choice, again)
		}
		if d, err := ParseDesign(word); err == nil {
			require.Equal(t, word, d.String())
		} else {
			require.ErrorIs(t, err, ErrArgument)
		}
	})
}

// FuzzCollective: a member sends the others whatever it likes in the place of its messages of a collective,
// among them headers of lengths that are none, and leaves. The others come back, with an error of a class or a
// result, and write nothing beyond their buffers.
func FuzzCollective(f *testing.F) {
	const wants, long = 61, 1 << 15 // as long as a header; this and more: in segments
	header := append([]byte("banyan: a long message follows in another way; bytes:"), 0, 0, 16, 0, 0, 0, 0, 0)
	for op := range uint8(12) {
		var headers, shorts, right []byte
		for tag := range byte(8) { // one of them is the operation's
			right = append(append(append(right, tag, wants), header[:53]...), wants, 0, 0, 0, 0, 0, 0, 0)
			right = append(append(right, tag, wants), make([]byte, wants)...)
			headers = append(append(headers, tag, wants), header...)
			shorts = append(shorts, tag, 3, 1, 2, 3, tag, 0)
		}
		for _, length := range []uint16{8, wants, long} {
			f.Add(op, op%2 == 0, headers, length)
			f.Add(op, op%2 == 1, shorts, length)
		}
		f.Add(op, true, right, uint16(wants))
		header[58+op%3] += 0x7f
	}
	f.Fuzz(func(t *testing.T, op uint8, chain bool, script []byte, length uint16) {
		apart := Simulation{Configure: func(cfg *sim.Config) { cfg.Topology.ProcsPerNode = 1 }}
		require.NoError(t, Simulate(3, apart, func(w *World) error {
			c := w.Comm()
			if c.Rank() == 1 {
				return disturb(c.on(c.core.Coll()), script)
			}
			if chain {
				if err := c.SetTree("chain"); err != nil {
					return err
				}
			}
			n := int(length)
			if n >= long {
				n += 512 << 10
			}
			return meddled(c, op, n)
		}))
	})
}

// meddled does a collective of n bytes in which others do what they like.
func meddled(c *Comm, op uint8, n int) error {
	memory := slices.Repeat([]byte{0xa5}, 5*n+64)
	buf, all := memory[:n:n], memory[2*n:5*n:5*n]
	fold := func(acc, in []byte) { copy(acc, in) }
	wait := func(r Request) error { _, err := r.Wait(); return err }
	err := [...]func() error{
		func() error { return c.Bcast(buf, 1) },
		func() error { return c.ReduceBytes(buf, fold, 0) },
		func() error { return c.AllreduceBytes(buf, fold) },
		func() error { return c.GatherBytes(buf, all, 0) },
		func() error { return c.ScatterBytes(all, buf, 1) },
		func() error { return c.AllgatherBytes(buf, all) },
		func() error { return wait(c.IBcast(buf, 1)) },
		func() error { return wait(c.IReduceBytes(buf, fold, 0)) },
		func() error { return wait(c.IAllreduceBytes(buf, fold)) },
		func() error { return wait(c.IGatherBytes(buf, all, 0)) },
		func() error { return wait(c.IScatterBytes(all, buf, 1)) },
		func() error { return wait(c.IAllgatherBytes(buf, all)) },
	}[op%12]()
	beyond := func(part []byte) bool { return bytes.Count(part, []byte{0xa5}) != len(part) }
	if beyond(memory[n:2*n]) || beyond(memory[5*n:]) {
		return fmt.Errorf("bytes beyond the buffers are written")
	}
	if err != nil && !slices.ContainsFunc(classes[1:], func(class error) bool { return errors.Is(err, class) }) {
		return err
	}
	return nil
}

// disturb sends messages to all others: tag, length, bytes.
func disturb(c *Comm, script []byte) error {
	for len(script) >= 2 {
		n := min(int(script[1]), len(script)-2)
		for _, to := range []int{0, 2} {
			c.Isend(script[2:2+n], to, int(script[0]%8))
		}
		script = script[2+n:]
	}
	return nil
}
