package job

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/coll"
)

// quitReport prints the pending operations of this rank when SIGQUIT comes, and sends the signal once
// more: then the Go runtime prints all stacks and ends the process as it does without this. It prints
// nothing if the process was started with the signal ignored.
type quitReport struct {
	signals chan os.Signal
	stopped chan struct{}
	once    sync.Once
	job     atomic.Pointer[Job]
	prefix  atomic.Pointer[string]
}

// reportOnQuit starts to wait for the signal.
func reportOnQuit() *quitReport {
	q := &quitReport{signals: make(chan os.Signal, 1), stopped: make(chan struct{})}
	q.known("banyan: ")
	if signal.Ignored(unix.SIGQUIT) { // Notify would end that
		return q
	}
	signal.Notify(q.signals, unix.SIGQUIT)
	go func() {
		select {
		case <-q.signals:
			_, _ = os.Stderr.WriteString(q.report())
			signal.Stop(q.signals)
			_ = unix.Kill(os.Getpid(), unix.SIGQUIT)
		case <-q.stopped:
		}
	}()
	return q
}

// known sets the prefix of the lines.
func (q *quitReport) known(prefix string) { q.prefix.Store(&prefix) }

// stop ends the waiting. A nil report has none.
func (q *quitReport) stop() {
	if q != nil {
		q.once.Do(func() {
			signal.Stop(q.signals)
			close(q.stopped)
		})
	}
}

const (
	// mostWaiting bounds the operations that are described.
	mostWaiting = 100
	// lockSeries bounds the attempts to take the engine's lock, in milliseconds or little more.
	lockSeries = 300
)

// report describes the pending operations of this rank, one per line.
func (q *quitReport) report() string {
	prefix := *q.prefix.Load()
	j := q.job.Load()
	if j == nil {
		return prefix + "Init, waiting for ranks that have not called it\n"
	}
	lines := j.waiting()
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(prefix + line + "\n")
	}
	return b.String()
}

// waiting describes the pending operations of this rank.
func (j *Job) waiting() (lines []string) {
	if j.Finalizing() {
		lines = append(lines, "Finalize, waiting for ranks that have not called it")
	}
	if !j.Progress.TryLock(lockSeries) {
		return append(lines, "operations unknown: a goroutine keeps the lock of the engine; see the stacks")
	}
	ops, more := j.P2P.Waiting(mostWaiting, j.notice, opOfTag)
	j.Progress.Unlock()
	lines = append(lines, ops...)
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	if len(lines) == 0 {
		lines = append(lines, "no operation under way")
	}
	return lines
}

// opOfTag is the name of the operation whose messages have a tag ([coll.Kind.Tag]). The messages that open a collective
// segment have the tag that is left, which is the number of Exscan.
func opOfTag(tag int) string {
	switch tag {
	case coll.Exscan.Tag():
		return coll.Exscan.String()
	case int(coll.Exscan):
		return "collective"
	}
	return coll.Kind(tag).String()
}
