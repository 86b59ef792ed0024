package bakery

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// acquire asks for the lock and polls until a member has it.
func acquire(l Lock, me int, kind Kind) {
	ok := l.Request(me, kind)
	for at := 0; !ok; at, ok = l.Granted(me, at) {
		runtime.Gosched()
	}
}

// Goroutines in the place of processes: writers exclude all others, and readers see the data of writers.
func TestGoroutines(t *testing.T) {
	const members, times = 6, 2000
	l := Open(make([]Word, WordsOf(members)), members)
	var all sync.WaitGroup
	var one, two int // equal, but for the member that has the lock exclusive
	for me := range members {
		all.Go(func() {
			for i := range times {
				kind := Shared
				if (i+me)%3 == 0 {
					kind = Exclusive
				}
				acquire(l, me, kind)
				assert.Equal(t, one, two)
				if kind == Exclusive {
					one++
					two++
				}
				l.Release(me)
			}
		})
	}
	all.Wait()
	assert.Equal(t, members*times/3, one)
}

// A member that has ended blocks no other member, whichever of many it is, and never gets the lock.
func TestExcluded(t *testing.T) {
	const members = 130
	for _, dead := range []int{0, 63, 64, 129} {
		words := make([]Word, WordsOf(members))
		l, other := Open(words, members), Open(words, members)
		assert.True(t, l.Request(dead, Exclusive))
		assert.False(t, other.Request(65, Shared))
		other.Sleep(65)
		_, ok := other.Granted(65, 0)
		assert.False(t, ok)
		assert.Equal(t, -1, l.Next(0))
		l.Exclude(dead)
		assert.Equal(t, 65, l.Next(0))
		assert.Equal(t, -1, l.Next(66))
		_, ok = other.Granted(65, 0)
		assert.True(t, ok)
		assert.Equal(t, -1, l.Next(0), "it does not sleep any more")
		other.Release(65)
		l.Release(dead)
		assert.False(t, l.Request(dead, Exclusive), "it has been excluded")
		_, ok = l.Granted(dead, 0)
		assert.False(t, ok)
	}
}

// A member that has ended asleep does not count as a sleeper that is to be woken.
func TestExcludedSleeper(t *testing.T) {
	l := Open(make([]Word, WordsOf(3)), 3)
	assert.True(t, l.Request(0, Exclusive))
	for _, waiting := range []int{1, 2} {
		assert.False(t, l.Request(waiting, Exclusive))
		l.Sleep(waiting)
	}
	l.Exclude(1)
	assert.Equal(t, -1, l.Next(0))
	l.Release(0)
	assert.Equal(t, 2, l.Next(0))
	l.Release(2)
	assert.Equal(t, -1, l.Next(0))
}

// With any contents of the words, every call returns, and accesses no others.
func TestAnyWords(t *testing.T) {
	for _, v := range []uint64{1, 2, 3, choosing, asleep, ^uint64(0), ^uint64(0) &^ choosing, 1 << 63} {
		words := make([]Word, WordsOf(3)+2)
		l := Open(words[1:], 3)
		for i := 1; i <= WordsOf(3); i++ {
			words[i].v.Store(v)
		}
		l.Request(1, Exclusive)
		_, _ = l.Granted(1, 0)
		l.Sleep(1)
		l.Next(0)
		l.Release(1)
		l.Exclude(2)
		assert.Zero(t, words[0].v.Load())
		assert.Zero(t, words[len(words)-1].v.Load())
	}
}

// One lock and its release by a member without contention.
func BenchmarkAlone(b *testing.B) {
	for _, members := range []int{2, 32, 128, 512} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			l := Open(make([]Word, WordsOf(members)), members)
			for b.Loop() {
				if !l.Request(1, Exclusive) {
					b.Fatal("another member has it")
				}
				l.Release(1)
				l.Next(0)
			}
		})
	}
}
