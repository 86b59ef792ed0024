package launch

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Signals begins to catch what a launcher forwards, for [Spec.Signals]: SIGINT,
// SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT. SIGINT and
// SIGHUP stay ignored where this process was started so, as by nohup and as
// scripts start their background jobs. stop ends the catching.
func Signals() (caught <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGCONT} {
		if !signal.Ignored(s) { // Notify would end that
			signal.Notify(c, s)
		}
	}
	return c, func() { signal.Stop(c) }
}

// signalSet has a bit for each signal.
type signalSet uint64

func (s signalSet) has(sig unix.Signal) bool { return s&(1<<sig) != 0 }

// ending are the signals that ask for the end, asking those whose repetition
// insists on it.
const (
	asking signalSet = 1<<unix.SIGINT | 1<<unix.SIGTERM | 1<<unix.SIGQUIT
	ending           = asking | 1<<unix.SIGHUP
)

// onSignal forwards a signal that the launcher got.
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
		t.signal(s, false)
	}
	if s == unix.SIGTSTP {
		j.flushHosts()
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP) // cannot fail; SIGCONT comes by the same way
	}
}
