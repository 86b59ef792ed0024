package fabrictest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// process is one process of a [Real] job, on the driver's side. The goroutine that runs the job
// uses it; a second one, read, sends events.
type process struct {
	Outcome
	cmd     *exec.Cmd
	control *os.File
	out     line // on control
	stderr  bytes.Buffer
	address []byte
	where   string
	done    bool // it has announced an orderly exit
	reaped  bool // its end has been handled
}

// spawn starts a copy of the test binary.
func spawn(exe string, id proc.ID, start func(proc.ID, *exec.Cmd) error, events chan<- event) (*process, error) {
	hisIn, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	records, hisOut, err := os.Pipe()
	if err != nil {
		_, _ = hisIn.Close(), control.Close()
		return nil, err
	}
	k := &process{
		Outcome: Outcome{ID: id}, cmd: exec.Command(exe), control: control,
		out: line{w: control},
	}
	// The race detector would make each process sleep for a second before it exits.
	k.cmd.Env = append(os.Environ(), childVariable+"=1", "GOTRACEBACK=all",
		"GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	k.cmd.ExtraFiles = []*os.File{hisIn, hisOut} // become childIn and childOut
	k.cmd.Stderr = &k.stderr
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if start == nil {
		start = func(_ proc.ID, cmd *exec.Cmd) error { return cmd.Start() }
	}
	err = start(id, k.cmd)
	_, _ = hisIn.Close(), hisOut.Close()
	if err != nil {
		_, _ = control.Close(), records.Close()
		return nil, err
	}
	go k.read(records, events)
	return k, nil
}

// read passes the process's messages on, and then its end.
func (k *process) read(records *os.File, events chan<- event) {
	receive(records, func(m message) { events <- event{id: k.ID, what: gotMessage, m: m} })
	_ = records.Close()
	_ = k.cmd.Wait() // ProcessState has the status
	events <- event{id: k.ID, what: ended}
}

// send gives up after the limit: then the process does not read any more, and the watchdog will
// report it. An error of an ended process is harmless.
func (k *process) send(m message, limit time.Duration) {
	_ = k.control.SetWriteDeadline(time.Now().Add(limit))
	_ = k.out.send(m)
}

func (k *process) kill() { _ = k.cmd.Process.Kill() }

// noteExit notes how the process ended.
func (k *process) noteExit() {
	k.reaped = true
	k.Stderr = k.stderr.String()
	status := k.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled():
		k.End = End{proc.Signaled, int(status.Signal())}
	case status.ExitStatus() == 0 && k.done:
		k.End = End{Kind: proc.Departed}
	default:
		k.End = End{proc.Exited, status.ExitStatus()}
	}
}

// Times for a hanging process to report where it waits, and to print its stacks.
const (
	answerTime = 10 * time.Second
	stacksTime = 10 * time.Second
)

// diagnose asks every remaining process where it waits, then makes it print its stacks, which ends
// it.
func (j *realJob) diagnose() string {
	for _, k := range j.processes {
		if !k.reaped {
			k.where = silent
			k.send(message{Op: opWhere}, answerTime)
		}
	}
	j.handleEvents(answerTime, func() bool {
		return !slices.ContainsFunc(j.processes, func(k *process) bool { return !k.reaped && k.where == silent })
	})
	var stuck []*process
	for _, k := range j.processes {
		if !k.reaped {
			stuck = append(stuck, k)
			_ = k.cmd.Process.Signal(syscall.SIGQUIT)
		}
	}
	j.handleEvents(stacksTime, func() bool { return false })
	var b strings.Builder
	for _, k := range j.processes {
		if k.reaped && k.where == "" {
			fmt.Fprintf(&b, "%v: ended, %v\n", k.ID, k.End)
		}
	}
	for _, k := range stuck {
		fmt.Fprintf(&b, "%v: %s\n%s\n", k.ID, k.where, k.Stderr)
	}
	return b.String()
}

// silent is the place of a process that has not answered.
const silent = "does not answer"

// handleEvents handles events until enough, until all processes have ended, or for a time; 0: no
// limit.
func (j *realJob) handleEvents(limit time.Duration, enough func() bool) {
	var timeout <-chan time.Time
	if limit > 0 {
		timeout = time.After(limit)
	}
	for j.ended < len(j.processes) && !enough() {
		select {
		case ev := <-j.events:
			switch ev.what {
			case ended:
				j.ended++
				j.processes[ev.id].noteExit()
			case gotMessage:
				j.handleMessage(j.processes[ev.id], ev.m)
			}
		case <-timeout:
			return
		}
	}
}
