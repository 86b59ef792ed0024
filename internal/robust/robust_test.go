package robust

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// childVar makes a copy of the test binary hold the words in a file.
const childVar = "BANYAN_ROBUST_HOLDS"

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(childVar)); err == nil {
		os.Exit(child(n))
	}
	os.Exit(m.Run())
}

// shared maps n words of the memory behind a descriptor.
func shared(fd, n int) ([]Word, error) {
	b, err := unix.Mmap(fd, 0, n*8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return wordsIn(b), nil
}

// child holds n words of descriptor 3 and says its thread. A line ends it: "release"
// lets go before, "exec" becomes another program, "exit" just exits.
func child(n int) int {
	words, err := shared(3, n)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	h, err := Hold(words)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	const busy = 4
	for range busy { // threads that are busy while it dies
		go func() {
			for n := 0; ; n++ {
				_ = n
			}
		}()
	}
	fmt.Println(h.Tid())
	in := bufio.NewReader(os.Stdin)
	switch line, _ := in.ReadString('\n'); line {
	case "release\n":
		h.Release()
		fmt.Println("released")
		_, _ = in.ReadString('\n')
	case "exec\n":
		_ = unix.Exec("/bin/cat", []string{"cat"}, nil)
	}
	return 0
}

// victim is a child as the test sees it.
type victim struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	words []Word // the parent's mapping
	seen  Seen
}

func spawn(t testing.TB, n int) *victim {
	t.Helper()
	fd, err := unix.MemfdCreate("words", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "words")
	defer f.Close()
	require.NoError(t, f.Truncate(int64(n)*8))
	exe, err := os.Executable()
	require.NoError(t, err)
	v := &victim{cmd: exec.Command(exe)}
	v.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", childVar, n))
	v.cmd.Stderr = os.Stderr
	v.cmd.ExtraFiles = []*os.File{f}
	v.in, err = v.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := v.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, v.cmd.Start())
	t.Cleanup(func() { _ = v.cmd.Process.Kill(); _ = v.cmd.Wait() })
	v.out = bufio.NewReader(out)
	tid, err := strconv.Atoi(v.read(t))
	require.NoError(t, err)
	v.words, err = shared(fd, n)
	require.NoError(t, err)
	v.seen, err = See(tid)
	require.NoError(t, err)
	return v
}

func (v *victim) read(t testing.TB) string {
	t.Helper()
	line, err := v.out.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

func (v *victim) say(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(v.in, line+"\n")
	require.NoError(t, err)
}

// news collects the keys that a Watch reports.
func news(t *testing.T) (*Watch, chan int32) {
	t.Helper()
	ch := make(chan int32, 4*MaxWords)
	w := NewWatch(func(key int32) { ch <- key })
	t.Cleanup(w.Close)
	return w, ch
}

// For any end of a process with many threads, the kernel tells each watcher of a word.
func TestDeathIsTold(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *victim){
		"killed": func(_ *testing.T, v *victim) { _ = v.cmd.Process.Kill() },
		"exits":  func(t *testing.T, v *victim) { v.say(t, "exit") },
		"execs":  func(t *testing.T, v *victim) { v.say(t, "exec") },
		"stopped, then killed": func(t *testing.T, v *victim) {
			require.NoError(t, v.cmd.Process.Signal(unix.SIGSTOP))
			_ = v.cmd.Process.Kill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := spawn(t, 3)
			w, told := news(t)
			for i := range v.words {
				w.Add(int32(i), &v.words[i], v.seen)
			}
			end(t, v)
			got := map[int32]bool{<-told: true, <-told: true, <-told: true}
			require.Len(t, got, 3)
			require.True(t, v.seen.Gone())
			require.Zero(t, w.Watched())
		})
	}
}

// A process that lets go has not died: the watcher gives the word up and says nothing.
func TestReleaseIsNoDeath(t *testing.T) {
	v := spawn(t, 1)
	w, told := news(t)
	w.Add(1, &v.words[0], v.seen)
	v.say(t, "release")
	require.Equal(t, "released", v.read(t))
	for w.Watched() > 0 {
		runtime.Gosched()
	}
	require.NoError(t, v.cmd.Process.Kill())
	_ = v.cmd.Wait()
	require.Empty(t, told)
}

// More watchers than a thread can wait for, of as many holders, and of one word:
// the kernel wakes one, which wakes the next.
func TestManyWatchers(t *testing.T) {
	const n = 300
	v := spawn(t, n)
	w, told := news(t)
	var others []*Watch
	for i := range v.words {
		w.Add(int32(i), &v.words[i], v.seen)
	}
	for range 8 {
		o := NewWatch(func(int32) { told <- n })
		t.Cleanup(o.Close)
		o.Add(0, &v.words[7], v.seen)
		others = append(others, o)
	}
	require.Len(t, w.groups, 3)
	require.NoError(t, v.cmd.Process.Kill())
	count := map[int32]int{}
	for range n + len(others) {
		count[<-told]++
	}
	require.Len(t, count, n+1)
	require.Equal(t, len(others), count[n])
}

// For any value in a word, no process is declared dead, and other words are
// watched as before.
func TestLiesAreNotBelieved(t *testing.T) {
	v := spawn(t, 4)
	w, told := news(t)
	for i, lie := range []uint32{diedBit, waitersBit | diedBit, uint32(os.Getpid())} {
		w.Add(int32(i), &v.words[i], v.seen)
		v.words[i].v.Store(lie)
		wake(addressOf(&v.words[i].v))
	}
	for w.Watched() > 0 {
		runtime.Gosched()
	}
	require.Empty(t, told)
	w.Add(9, &v.words[3], v.seen)
	require.NoError(t, v.cmd.Process.Kill())
	require.EqualValues(t, 9, <-told)
	require.Empty(t, told)
}

// One look at a word of any value: a living process is not taken for dead, and a word is watched
// further only if its holder may have written it, or for a hundred doubts.
func FuzzWord(f *testing.F) {
	for _, v := range []uint32{0, diedBit, waitersBit | diedBit, waitersBit, tidMask, ^uint32(0)} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v uint32) {
		words := make([]Word, 1)
		h, err := Hold(words)
		require.NoError(t, err)
		defer h.Release()
		of, err := See(h.Tid())
		require.NoError(t, err)
		word := new(Word)
		word.v.Store(v)
		g, e := &group{w: NewWatch(nil)}, entry{word: word, of: of}
		for range maxDoubts + 1 {
			var r round
			kept := g.judge(&e, &r)
			require.Empty(t, r.dead)
			require.Equal(t, v&diedBit != 0, r.doubted)
			switch {
			case v&diedBit != 0:
				require.Equal(t, e.doubts < maxDoubts, kept)
			default:
				require.Equal(t, v&tidMask == uint32(h.Tid()), kept)
			}
			if !kept {
				return
			}
		}
	})
}

// Nothing runs after Close and Release, and a removed word is not reported.
func TestNothingIsLeft(t *testing.T) {
	v := spawn(t, 2)
	before := threads(t)
	words, err := shared(memory(t), 2)
	require.NoError(t, err)
	var all []*Holder
	for range 10 {
		h, err := Hold(words)
		require.NoError(t, err)
		all = append(all, h)
	}
	w, told := news(t)
	w.Add(1, &v.words[0], v.seen)
	w.Add(2, &v.words[1], v.seen)
	w.Remove(1)
	require.NoError(t, v.cmd.Process.Kill())
	require.EqualValues(t, 2, <-told)
	w.Close()
	for _, h := range all {
		h.Release()
		h.Release()
		for h.thread() {
			runtime.Gosched()
		}
	}
	require.Empty(t, told)
	// Go's own threads may have come: they stay few however many have gone.
	require.Less(t, threads(t), before+len(all))
}

// thread reports whether the holder's thread exists.
func (h *Holder) thread() bool {
	return unix.Tgkill(unix.Getpid(), h.tid, 0) == nil
}

func threads(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	return len(list)
}

func memory(t *testing.T) int {
	t.Helper()
	fd, err := unix.MemfdCreate("words", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Ftruncate(fd, 4096))
	return fd
}

func TestProbe(t *testing.T) {
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { require.NoError(t, Probe()) })
	}
	all.Wait()
}

func TestSeeSaysWhatIsMissing(t *testing.T) {
	_, err := See(1 << 22)
	require.ErrorIs(t, err, unix.ESRCH)
	_, err = Hold(make([]Word, MaxWords+1))
	require.ErrorContains(t, err, "2049")
	require.Negative(t, round{doubted: false}.limit())
	require.Equal(t, time.Millisecond, round{doubted: true}.limit())
}

// The thread that holds words dies before others: it has a real-time class where that is allowed, and else short slices.
func TestHolderIsFirstToRun(t *testing.T) {
	allowed, short := make(chan bool), make(chan uint64)
	go func() {
		runtime.LockOSThread() // and ends with the goroutine
		promptly()
		a, _ := unix.SchedGetAttr(0, 0)
		short <- a.Runtime // old kernels know no slices
		allowed <- unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1}, 0) == nil
	}()
	a, err := unix.SchedGetAttr(spawn(t, 1).seen.tid, 0)
	require.NoError(t, err)
	if slice := <-short; <-allowed {
		require.EqualValues(t, unix.SCHED_FIFO, a.Policy)
	} else {
		require.EqualValues(t, unix.SCHED_NORMAL, a.Policy)
		require.Equal(t, slice, a.Runtime)
	}
}

// A quiet watch has the kernel wake nobody, for words that come before and after; and reports what it has left out
// when it is quiet no longer.
func TestQuietWatch(t *testing.T) {
	v := spawn(t, 3)
	w, told := news(t)
	waits := func(words ...int) (all bool) {
		all = true
		for _, i := range words {
			all = all && v.words[i].v.Load()&waitersBit != 0
		}
		return all
	}
	w.Add(0, &v.words[0], v.seen)
	for !waits(0) { // the thread has looked
		runtime.Gosched()
	}
	w.Quiet(true)
	require.False(t, waits(0))
	w.Add(1, &v.words[1], v.seen)
	waitUntilAsleep(t, []*Watch{w})
	require.False(t, waits(0))
	require.False(t, waits(1))
	w.Quiet(false)
	require.True(t, waits(0, 1))
	w.Quiet(true)
	waitUntilAsleep(t, []*Watch{w})
	require.NoError(t, v.cmd.Process.Kill())
	for !v.seen.Gone() {
		runtime.Gosched()
	}
	require.Empty(t, told)
	w.Quiet(false)
	require.ElementsMatch(t, []int32{0, 1}, []int32{<-told, <-told})
	w.Add(2, &v.words[2], v.seen)
	require.EqualValues(t, 2, <-told)
}
