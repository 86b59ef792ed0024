package robust

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A thread that the kernel wakes at several words is told of one of them; it wakes those that share
// the others too. The first watch waits at both words before the others do, so that the kernel's
// one wake-up at each goes to it.
func TestWakeUpsArePassedOn(t *testing.T) {
	for range 20 {
		v := spawn(t, 2)
		first, told := news(t)
		first.Add(0, &v.words[0], v.seen)
		first.Add(1, &v.words[1], v.seen)
		watches := []*Watch{first}
		waitUntilAsleep(t, watches)
		for i := range v.words {
			w := NewWatch(func(key int32) { told <- key })
			w.Add(int32(2+i), &v.words[i], v.seen)
			watches = append(watches, w)
			waitUntilAsleep(t, watches)
		}
		require.NoError(t, v.cmd.Process.Kill())
		got := map[int32]bool{}
		for range 4 {
			got[<-told] = true
		}
		require.Len(t, got, 4)
		for _, w := range watches {
			w.Close()
		}
	}
}

// A marked word may be removed and unmapped between the look at it and the wake-up that is passed on.
func TestWakeUpAtAnUnmappedWord(t *testing.T) {
	b, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	word := &wordsIn(b)[0]
	word.v.Store(diedBit)
	g := &group{w: NewWatch(nil), entries: []entry{{word: word}}}
	var r round
	g.look(&r)
	require.Len(t, r.marked, 1)
	require.NoError(t, unix.Munmap(b))
	r.passOn()
}

// waitUntilAsleep waits until the threads of the watches, the only ones of the process, have looked
// at all their words and sleep.
func waitUntilAsleep(t *testing.T, watches []*Watch) {
	t.Helper()
	for {
		looked := 0
		for _, w := range watches {
			w.mu.Lock()
			for _, g := range w.groups {
				if !g.roused {
					looked++
				}
			}
			w.mu.Unlock()
		}
		if looked == len(watches) && sleepers(t) == len(watches) {
			return
		}
		runtime.Gosched()
	}
}

// sleepers is the number of threads of this process that wait for a Watch.
func sleepers(t *testing.T) (n int) {
	t.Helper()
	calls, err := filepath.Glob("/proc/self/task/*/syscall")
	require.NoError(t, err)
	for _, name := range calls {
		b, _ := os.ReadFile(name) // the thread may have ended
		if strings.HasPrefix(string(b), strconv.Itoa(unix.SYS_FUTEX_WAITV)+" ") {
			n++
		}
	}
	return n
}
