package collectives

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// layouts are ranks on nodes: in runs, in turn, with one alone, and one node that has few.
var layouts = []string{"a;a;a;a;b;b;b;b", "a;b;a;b;a;b;a", "a;a;b;c;c;c", "a;b;b;b;a", "a;b;c;a;b;c;d;d;d"}

// levelsRank checks the collectives that go in two levels, at lengths on both sides of each limit. With BANYAN_LONG every rank is
// the root of each but the longest, else every third one, others for each length.
func levelsRank(w *banyan.World) error {
	c := w.Comm()
	sizes := []int{1, 0, 8, 40, 128, 129, 256, 257, 2048, 9000, 70_000} // words
	kinds := []ranktest.CollectiveKind{
		ranktest.Barrier, ranktest.Allreduce, ranktest.Bcast, ranktest.Allgather, ranktest.Bcast, ranktest.InPlace,
	}
	for number := range len(kinds) * len(sizes) * c.Size() {
		at, call := number/len(kinds), number%len(kinds)
		length, round := at%len(sizes), at/len(sizes)
		size := sizes[length]
		if (size >= 9000 || !ranktest.Long()) && (length+round)%3 > 0 {
			continue
		}
		o := ranktest.Collective{Kind: kinds[call], Number: number / 2, Root: (round + call) % c.Size(), Size: size}
		if err := o.Check(c, false); err != nil {
			return err
		}
	}
	for root := range c.Size() { // of the length of a header
		buf := make([]byte, 61)
		if c.Rank() == root {
			copy(buf, strings.Repeat("x", 61))
		}
		if err := c.Bcast(buf, root); err != nil || !bytes.Equal(buf, []byte(strings.Repeat("x", 61))) {
			return fmt.Errorf("bcast of 61 bytes from %d: %q, %w", root, buf, err)
		}
		all := make([]byte, 61*c.Size())
		if err := c.Allgather(buf, all); err != nil || !bytes.Equal(all, bytes.Repeat(buf, c.Size())) {
			return fmt.Errorf("allgather of 61 bytes: %q, %w", all, err)
		}
	}
	return nil
}

func TestLevels(t *testing.T) {
	for i, layout := range layouts[:ranktest.Scaled(len(layouts), 2)] {
		for _, fabric := range ranktest.InTurn(i, "shm,tcp", "shm,unix") {
			t.Run(fabric+" "+layout, func(t *testing.T) {
				n := len(strings.Split(layout, ";"))
				ranktest.Succeed(t, n, "levels", ranktest.Nodes(layout), "BANYAN_FABRIC="+fabric)
			})
		}
	}
}

// levelsDiffer has one rank call with another length than the others, on each side of each limit: with BANYAN_LONG each rank at
// each length, else at every second one. Some rank gets an error, none waits for ever, and the operations after it work.
func levelsDiffer(w *banyan.World) error {
	c := w.Comm()
	if err := errors.Join(c.Barrier(), c.Barrier()); err != nil {
		return err
	}
	lengths := []int{0, 8, 61, 350, 1024, 2048, 4096, 40_000, 600_000}
	fold := func(acc, in []byte) { copy(acc, in) }
	for odd := range c.Size() {
		for i, usual := range lengths {
			other := lengths[(i+1+odd)%len(lengths)]
			if other == usual || !ranktest.Long() && (odd+i)%2 > 0 {
				continue
			}
			buf := make([]byte, usual)
			if c.Rank() == odd {
				buf = make([]byte, other)
			}
			if err := c.Allreduce(buf, buf, fold); !errors.Is(err, banyan.ErrArgument) && (len(buf) > 0 || err != nil) {
				return fmt.Errorf("allreduce of %d bytes, of %d at rank %d: %w", usual, other, odd, err)
			}
			if err := c.Allgather(buf, make([]byte, c.Size()*len(buf))); !errors.Is(err, banyan.ErrArgument) &&
				(len(buf) > 0 || err != nil) {
				return fmt.Errorf("allgather of %d bytes, of %d at rank %d: %w", usual, other, odd, err)
			}
			root := (odd + i) % c.Size()
			err := c.Bcast(buf, root)
			if wrong := c.Rank() == odd && root != odd && len(buf) > 0; (wrong || err != nil) && !errors.Is(err, banyan.ErrArgument) {
				return fmt.Errorf("bcast of %d bytes from %d, of %d at rank %d: %w", usual, root, other, odd, err)
			}
			if err := c.Barrier(); err != nil {
				return fmt.Errorf("barrier after different lengths: %w", err)
			}
		}
	}
	return levelsWrongRoot(c)
}

// levelsWrongRoot has the last rank, which is no leader, name a root that cannot be: its next operations are those of the others.
func levelsWrongRoot(c *banyan.Comm) error {
	for range 10 {
		root, want := 0, error(nil)
		if c.Rank() == c.Size()-1 {
			root, want = c.Size(), banyan.ErrArgument
		}
		if err := c.Bcast(make([]byte, 8), root); !errors.Is(err, want) {
			return fmt.Errorf("bcast from %d: %w", root, err)
		}
		if err := c.Barrier(); err != nil {
			return fmt.Errorf("barrier after a wrong root: %w", err)
		}
	}
	return nil
}

func TestLevelsWithDifferentLengths(t *testing.T) {
	for _, layout := range layouts[:ranktest.Scaled(len(layouts), 2)] {
		t.Run(layout, func(t *testing.T) {
			n := len(strings.Split(layout, ";"))
			ranktest.Succeed(t, n, "levels differ", ranktest.Nodes(layout), "BANYAN_FABRIC=shm,tcp")
		})
	}
}

// Leaders and others die in and right after collectives in two levels, under both profiles.
func TestLevelsAndDeaths(t *testing.T) {
	seeds := ranktest.JobSeeds(2, 60)
	for i, layout := range layouts[:ranktest.Scaled(len(layouts), 2)] {
		for _, role := range ranktest.InTurn(i, "completed", "flat") {
			for _, seed := range seeds {
				t.Run(fmt.Sprint(role, " ", layout, " ", seed), func(t *testing.T) {
					n := len(strings.Split(layout, ";"))
					env := append([]string{
						ranktest.Nodes(layout), "BANYAN_FABRIC=shm,tcp", fmt.Sprint(ranktest.SeedEnv, "=", seed),
					}, ranktest.Steady...)
					res, out := ranktest.Job(t, launch.Continue, n, role, env...)
					for _, e := range res.Ends {
						if e.Failed() {
							require.Contains(t, e.String(), "SIGKILL", out)
						}
					}
				})
			}
		}
	}
}

// levelsRootLeaves has rank 0, alone on its node, broadcast and die. Rank 2 waits for its leader, rank 1, and knows of the
// death before that comes: rank 0 had completed the broadcast, so it succeeds at both.
func levelsRootLeaves(size int) func(w *banyan.World) error {
	return func(w *banyan.World) error {
		c := w.Comm()
		if err := errors.Join(c.Barrier(), c.Barrier()); err != nil {
			return err
		}
		if c.Rank() == 1 {
			for c.Failed().Size() == 0 { // makes progress
				w.Sleep(time.Millisecond)
			}
			w.Sleep(100 * time.Millisecond) // rank 2 learns of it too, and has nothing else to do
		}
		buf, want := make([]byte, size), bytes.Repeat([]byte("the root"), size/8)
		if c.Rank() == 0 {
			copy(buf, want)
		}
		if err := c.Bcast(buf, 0); err != nil || !bytes.Equal(buf, want) {
			return fmt.Errorf("a broadcast of %d bytes that its root has completed: %q, %w", size, buf[:8], err)
		}
		if c.Rank() == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail
		}
		return nil
	}
}

// The data go through memory, or are too long for that and come in a message right after the word of it, also while a
// goroutine makes progress.
func TestLevelsAfterTheRootHasLeft(t *testing.T) {
	for _, role := range []string{"levels, root leaves", "levels, root leaves long"} {
		res, out := ranktest.Job(t, launch.Continue, 3, role, ranktest.Nodes("b;a;a"), "BANYAN_FABRIC=shm,tcp",
			"BANYAN_PROFILE=ulfm", "BANYAN_PROGRESS_ASYNC=on")
		for rank, e := range res.Ends {
			require.Equal(t, rank == 0, e.Failed(), "%s: %v\n%s", role, e, out)
		}
	}
}

// levelsBreakTheChain has rank 2, which would wake rank 3, die in a barrier that it has come to, while both wait for rank
// 4 on another node. Rank 3 sees the end of the barrier although no message comes, not even of a detector, and rank 0
// waits for it.
func levelsBreakTheChain(w *banyan.World) error {
	c := w.Comm()
	pids := make([]int64, c.Size())
	if err := errors.Join(banyan.Allgather(c, []int64{int64(os.Getpid())}, pids), c.Barrier(), c.Barrier()); err != nil {
		return err
	}
	switch c.Rank() {
	case 2:
		time.AfterFunc(time.Second, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }) // cannot fail
	case 4:
		for syscall.Kill(int(pids[2]), 0) == nil {
			w.Sleep(time.Millisecond)
		}
		w.Sleep(200 * time.Millisecond) // rank 3 sleeps again
	}
	if err := c.Barrier(); err != nil {
		return fmt.Errorf("a barrier to which all have come: %w", err)
	}
	switch c.Rank() {
	case 0:
		return lastOf(c.Recv(nil, 3, 0))
	case 3:
		return c.Send(nil, 0, 0)
	}
	return nil
}

func TestLevelsAfterTheChainIsBroken(t *testing.T) {
	res, out := ranktest.Job(t, launch.Continue, 5, "levels, broken chain", ranktest.Nodes("a;a;a;a;b"), "BANYAN_FABRIC=shm,tcp",
		"BANYAN_PROFILE=ulfm", "BANYAN_DETECT=off")
	for rank, e := range res.Ends {
		require.Equal(t, rank == 2, e.Failed(), "%v\n%s", e, out)
	}
}

// levelsLastOneLate has rank 3 come to the last of several broadcasts of another node when the others of its node may sleep
// there. No detector wakes rank 0, so it leaves only if all of its node wait for the same rank.
func levelsLastOneLate(w *banyan.World) error {
	c := w.Comm()
	buf := make([]byte, 8)
	err := errors.Join(c.Barrier(), c.Barrier())
	for range 4 {
		err = errors.Join(err, c.Bcast(buf, 4))
	}
	err = errors.Join(err, c.Barrier())
	for range 5 {
		err = errors.Join(err, c.Bcast(buf, 4))
	}
	if c.Rank() == 3 {
		w.Sleep(100 * time.Millisecond) // the others sleep
	}
	if err = errors.Join(err, c.Bcast(buf, 4)); err != nil {
		return err
	}
	switch c.Rank() {
	case 0:
		return errors.Join(c.Send(nil, 3, 0), lastOf(c.Recv(nil, 3, 0)))
	case 3:
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = lastOf(c.WithContext(ctx).Recv(nil, 0, 0))
		for _, rank := range []int{0, 1, 2, 4} {
			err = errors.Join(err, c.Send(nil, rank, 0))
		}
		return err
	}
	return lastOf(c.Recv(nil, 3, 0)) // a rank that departs would wake rank 0
}

func TestLevelsWithALateRank(t *testing.T) {
	ranktest.Succeed(t, 5, "levels, last one late", ranktest.Nodes("a;a;a;a;b"), "BANYAN_FABRIC=shm,tcp", "BANYAN_DETECT=off")
}
