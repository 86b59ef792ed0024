package launch

import (
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Signals catches the signals that a launcher forwards, for [Spec.Signals]: SIGINT, SIGTERM,
// SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT. SIGINT and SIGHUP stay ignored where this
// process was started so, as by nohup and as scripts start their background jobs. If one of the
// first four comes again within a second, the second one is dropped: timeout(1) sends each of them
// twice, to the process and to its group. stop ends the catching.
func Signals() (caught <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	for _, s := range []os.Signal{
		unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP,
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGCONT,
	} {
		if !signal.Ignored(s) { // Notify would end that
			signal.Notify(c, s)
		}
	}
	out, stopped := make(chan os.Signal), make(chan struct{})
	go withoutRepeats(out, c, stopped)
	return out, sync.OnceFunc(func() {
		signal.Stop(c)
		close(stopped)
	})
}

// withoutRepeats forwards signals, but for repeats.
func withoutRepeats(out chan<- os.Signal, in <-chan os.Signal, stopped <-chan struct{}) {
	clock := time.NewTicker(repeatTick)
	defer clock.Stop()
	var repeats repeats
	for open := true; ; {
		ticks := clock.C
		if !open {
			clock.Stop()
			ticks = nil
		}
		select {
		case s := <-in:
			if repeats.drop(s) {
				continue
			}
			if !open {
				open = true
				clock.Reset(repeatTick)
			}
			select {
			case out <- s:
			case <-stopped:
				return
			}
		case <-ticks:
			open = repeats.tick()
		case <-stopped:
			return
		}
	}
}

// A repeat comes less than a second after the first. The time is counted in ticks that the launcher
// has processed: one that has not run for a second may find both signals waiting.
const (
	repeatTick  = 100 * time.Millisecond
	repeatTicks = 10
)

// repeats finds signals that one sender has sent to a process and to its group: for each signal,
// the ticks in which its repeat is dropped.
type repeats map[unix.Signal]int

// drop reports whether a signal is the second of a pair.
func (t *repeats) drop(sig os.Signal) bool {
	s, ok := sig.(unix.Signal)
	if !ok || !ending.has(s) {
		return false
	}
	if *t == nil {
		*t = make(repeats)
	}
	left, seen := (*t)[s]
	if !seen {
		(*t)[s] = repeatTicks
		return false
	}
	(*t)[s] = 0
	return left > 0
}

// tick counts down, and reports whether there is more to count.
func (t repeats) tick() (more bool) {
	for s, left := range t {
		t[s] = max(0, left-1)
		more = more || left > 1
	}
	return more
}

// signalSet has a bit for each signal.
type signalSet uint64

func (s signalSet) has(sig unix.Signal) bool { return s&(1<<sig) != 0 }

// ending are the signals that ask for the end of the job. The second signal of asking kills the
// ranks.
const (
	asking signalSet = 1<<unix.SIGINT | 1<<unix.SIGTERM | 1<<unix.SIGQUIT
	ending           = asking | 1<<unix.SIGHUP
)

// onSignal handles a signal to the launcher.
func (j *job) onSignal(sig os.Signal) {
	s, ok := sig.(unix.Signal)
	if !ok {
		return
	}
	if asking.has(s) {
		j.interrupts++
	}
	if ending.has(s) && (j.interrupts > 1 || j.left == 0) {
		j.hurry = 128 + int(s)
	}
	if j.interrupts > 1 && asking.has(s) && j.left > 0 {
		j.settle(j.hurry)
		j.end(unix.SIGKILL)
		return
	}
	j.forwarded |= 1 << s
	for _, t := range j.targets {
		t.Signal(s, false)
	}
	if s == unix.SIGTSTP {
		j.flushHosts()
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP) // cannot fail; SIGCONT comes by the same way
	}
}
