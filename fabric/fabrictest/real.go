package fabrictest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// Real is the driver of real processes: copies of the test binary, whose TestMain must call [Main].
// It kills them with SIGKILL. They end with the test binary, for any cause of its end.
type Real struct {
	// Start, if set, replaces cmd.Start, on the same thread.
	Start func(id proc.ID, cmd *exec.Cmd) error
	// Meanwhile, if set, runs beside each job, from the moment when all processes have each other's
	// addresses, until done is closed. An error fails the job.
	Meanwhile func(seed uint64, done <-chan struct{}) error

	stall time.Duration
	shm   string // where no files may be left
}

// NewReal makes a driver. A job without any message for BANYAN_STALL seconds, by default 60, counts
// as hanging.
func NewReal() *Real {
	const otherwise = 60
	return &Real{shm: shmDir, stall: time.Duration(cmp.Or(envInt("BANYAN_STALL", 0), otherwise)) * time.Second}
}

// Isolated implements [Driver].
func (r *Real) Isolated() bool { return true }

// SignalStarted is the signal of a victim that it may be killed from now on.
const SignalStarted = "started"

// Run implements [Driver].
func (r *Real) Run(job Job) ([]Outcome, error) {
	// The kernel kills the children when the thread that forked them ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	shm := listFiles(r.shm)
	j := &realJob{
		Job: job, driver: r, stall: r.stall, events: make(chan event, 64),
		rand: rand.New(rand.NewPCG(job.Seed, uint64(job.N))),
	}
	defer j.killRest()
	defer func() { _ = j.stopMeanwhile() }()
	if err := j.start(); err != nil {
		return j.outcomes(), err
	}
	if err := j.conduct(); err != nil {
		return j.outcomes(), err
	}
	if err := j.stopMeanwhile(); err != nil {
		return j.outcomes(), err
	}
	if left := orphans(r.shm, shm); left != nil {
		return j.outcomes(), fmt.Errorf("left behind in %s: %s", r.shm, strings.Join(left, ", "))
	}
	return j.outcomes(), nil
}

// realJob is one run.
type realJob struct {
	Job
	driver          *Real
	stall           time.Duration
	done            chan struct{} // closed to end Meanwhile; nil: it does not run
	meanwhileResult chan error    // its result
	rand            *rand.Rand
	processes       []*process
	events          chan event
	addresses       int
	ended           int
}

// event is a message from a process, its end, or the time to kill it.
type event struct {
	id   proc.ID
	what happening
	m    message
}

type happening uint8

const (
	gotMessage happening = iota
	ended
	killDue
)

func (j *realJob) start() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	for i := range j.N {
		k, err := spawn(exe, proc.ID(i), j.driver.Start, j.events)
		if err != nil {
			return fmt.Errorf("starting process %d: %w", i, err)
		}
		j.processes = append(j.processes, k)
		k.send(message{Op: opJob, ID: k.ID, Job: &j.Job}, j.stall)
	}
	return nil
}

// conduct handles events until every process has ended.
func (j *realJob) conduct() error {
	watchdog := time.NewTimer(j.stall)
	defer watchdog.Stop()
	for j.ended < j.N {
		select {
		case ev := <-j.events:
			watchdog.Reset(j.stall)
			if err := j.handle(ev); err != nil {
				return err
			}
		case <-watchdog.C:
			return fmt.Errorf("the job hangs: no message for %v\n%s", j.stall, j.diagnose())
		}
	}
	return nil
}

func (j *realJob) handle(ev event) error {
	k := j.processes[ev.id]
	switch ev.what {
	case killDue:
		k.kill()
	case ended:
		j.ended++
		k.noteExit()
		if j.addresses < j.N {
			return errors.New("a process ended before the job began")
		}
		if k.has(recordFail) {
			return errors.New("the job was ended early: a process has complained")
		}
		j.relaySignal(k.ID, SignalEnded)
	case gotMessage:
		j.handleMessage(k, ev.m)
	}
	return nil
}

func (j *realJob) handleMessage(k *process, m message) {
	switch m.Op {
	case opAddress:
		k.address = m.Blobs[0]
		if j.addresses++; j.addresses == j.N {
			j.sendAddresses()
		}
	case opSignal:
		j.relaySignal(k.ID, m.Name)
		if m.Name == SignalStarted && slices.Contains(j.Victims, k.ID) {
			time.AfterFunc(j.killDelay(), func() { j.events <- event{id: k.ID, what: killDue} })
		}
	case opRecord:
		k.Records = append(k.Records, *m.Record)
	case opDone:
		k.done = true
	case opWhere:
		k.where = m.Text
	}
}

// killDelay draws how long a victim lives on: any order of magnitude from a microsecond to some
// milliseconds has the same probability.
func (j *realJob) killDelay() time.Duration {
	return time.Duration(1000 * math.Exp(j.rand.Float64()*math.Log(10_000)))
}

// sendAddresses sends all addresses to every process: the job begins.
func (j *realJob) sendAddresses() {
	blobs := make([][]byte, j.N)
	for i, k := range j.processes {
		blobs[i] = k.address
	}
	for _, k := range j.processes {
		k.send(message{Op: opPeers, Blobs: blobs}, j.stall)
	}
	if j.driver.Meanwhile != nil {
		done := make(chan struct{})
		j.done, j.meanwhileResult = done, make(chan error, 1)
		go func() { j.meanwhileResult <- j.driver.Meanwhile(j.Seed, done) }()
	}
}

// stopMeanwhile ends the function that runs beside the job.
func (j *realJob) stopMeanwhile() error {
	if j.done == nil {
		return nil
	}
	close(j.done)
	j.done = nil
	return <-j.meanwhileResult
}

// relaySignal passes a signal on to all other processes.
func (j *realJob) relaySignal(from proc.ID, name string) {
	for _, k := range j.processes {
		if k.ID != from && !k.reaped {
			k.send(message{Op: opSignal, ID: from, Name: name}, j.stall)
		}
	}
}

func (j *realJob) outcomes() []Outcome {
	outs := make([]Outcome, len(j.processes))
	for i, k := range j.processes {
		outs[i] = k.Outcome
	}
	return outs
}

// killRest kills the remaining processes and waits for them and their readers.
func (j *realJob) killRest() {
	for _, k := range j.processes {
		if !k.reaped {
			k.kill()
		}
	}
	j.handleEvents(0, func() bool { return false })
	for _, k := range j.processes {
		_ = k.control.Close()
	}
}
