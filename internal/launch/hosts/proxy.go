package hosts

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// relayBytes is the buffer of a relay, for a few requests.
const relayBytes = 4 << 10

// proxy is the launcher's agent on one host: it starts the ranks there, and relays between them and
// the launcher. It decides for itself only after the end of the launcher.
type proxy struct {
	link      *link
	job       jobText
	openExits spawn.OpenExits
	spawner   spawn.Spawner
	processes []*spawn.Process
	work      sync.WaitGroup
	reported  chan struct{} // closed when frameStarted has been sent
	finished  chan struct{} // closed when all ranks have ended
}

// Proxy is the main function of a program that a launcher starts on a host through a remote shell:
// in and out are the standard input and output of the process. It changes the process's environment
// and its handling of SIGPIPE and SIGHUP, and returns when the ranks of the host have ended. Then
// the process should exit, with code 0 if the error is nil. exits may be nil.
//
// When in ends before the job does, the launcher is gone. Under [spawn.Abort] the ranks are killed;
// under [spawn.Continue] they continue, and Proxy reads their output until they have ended.
func Proxy(in io.Reader, out io.Writer, exits spawn.OpenExits) error {
	// Notify, not Ignore: an ignored signal would stay ignored in the ranks.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGHUP)
	if _, err := io.WriteString(out, greeting+strconv.Itoa(protocolVersion)+greetingEnd); err != nil {
		return fmt.Errorf("launch: proxy: %w", err)
	}
	x := &proxy{
		openExits: exits, link: newLink(bufio.NewReaderSize(in, chunkMax), out),
		reported: make(chan struct{}), finished: make(chan struct{}),
	}
	written := make(chan struct{})
	go func() { defer close(written); x.link.write() }()
	err := x.run()
	x.link.finish()
	<-written
	if err != nil {
		return fmt.Errorf("launch: proxy: %w", err)
	}
	return nil
}

// run returns nil also when the launcher has ended before the ranks were started, or has received
// the reason for which they cannot be.
func (x *proxy) run() error {
	f, err := x.link.read()
	if err == nil && f.kind != frameJob {
		err = fmt.Errorf("%w: one of kind %d in place of the job", errFrame, f.kind)
	}
	if err != nil {
		return unlessEOF(err)
	}
	if err := x.prepare(f.payload); err != nil {
		x.refuse(err)
		return nil
	}
	x.link.send(frame{kind: frameReady})
	if f, err = x.link.read(); err != nil {
		return unlessEOF(err)
	}
	if f.kind != frameStart {
		return nil // the launcher gives up the job
	}
	if err := x.startAll(); err != nil {
		x.refuse(err)
		return nil
	}
	go x.listen() // ends with the process
	<-x.finished
	x.work.Wait()
	x.link.send(frame{kind: frameDone})
	return nil
}

// unlessEOF makes the end of the launcher no error.
func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (x *proxy) refuse(err error) {
	why := strings.TrimPrefix(err.Error(), "launch: ")
	x.link.send(frame{kind: frameRefused, payload: []byte(why[:min(len(why), textMax)])})
}

// decodeJob decodes the payload of frameJob.
func decodeJob(payload []byte) (t jobText, err error) {
	if err := json.Unmarshal(payload, &t); err != nil {
		return t, fmt.Errorf("the description of the job: %w", err)
	}
	if t.Count < 1 || t.First < 0 || t.FirstCPU < 0 || t.N > proc.MaxIDs || t.Count > t.N-t.First || len(t.Argv) == 0 {
		return t, errors.New("the description of the job makes no sense")
	}
	return t, nil
}

// prepare finds errors of this host before the ranks start.
func (x *proxy) prepare(payload []byte) (err error) {
	if x.job, err = decodeJob(payload); err != nil {
		return err
	}
	t := &x.job
	dir := string(t.Dir)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return fmt.Errorf("working directory %s: %w: ranks run in the launcher's on every host; "+
			"make it there, or name another with --wdir", dir, orNotDir(err))
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	// In the process's own environment, so that PATH holds for the search of the program. Shells
	// believe PWD.
	for _, e := range append([][]byte{[]byte("PWD=" + dir)}, t.Env...) {
		name, value, _ := strings.Cut(string(e), "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("variable %s: %w", pmi.Excerpt(name), err)
		}
	}
	x.spawner = spawn.Spawner{
		ID: t.Job, N: t.N, Dir: dir, Env: spawn.WithoutLauncher(os.Environ()), Bind: t.Bind,
		OnFailure: t.OnFailure, OpenExits: x.openExits,
		First: t.First, Count: t.Count, FirstCPU: t.FirstCPU, OnStart: x.serve, Finished: x.finished,
	}
	for _, a := range t.Argv {
		x.spawner.Argv = append(x.spawner.Argv, string(a))
	}
	if t.Stdin && t.First == 0 {
		x.spawner.Stdin = x.link.stream(streamIn, 0)
	}
	return x.spawner.Check()
}

func orNotDir(err error) error {
	if err == nil {
		return syscall.ENOTDIR
	}
	return errors.Unwrap(err) // the message contains the path already
}

// startAll starts the ranks and reports their process ids.
func (x *proxy) startAll() error {
	started := make(chan error)
	go x.spawner.Run(started)
	err := <-started
	var text startedText
	var running sync.WaitGroup
	for _, p := range x.processes {
		text.PIDs = append(text.PIDs, p.PID())
		if err != nil {
			p.Signal(unix.SIGKILL, true)
		}
		running.Go(func() { <-p.Exited })
	}
	if err != nil {
		running.Wait()
		close(x.finished)
		return err
	}
	list, err := json.Marshal(text)
	if err != nil {
		return err
	}
	x.link.send(frame{kind: frameStarted, payload: list})
	close(x.reported)
	go func() { running.Wait(); close(x.finished) }()
	return nil
}

// serve relays for a rank that has just started.
func (x *proxy) serve(p *spawn.Process) {
	x.processes = append(x.processes, p)
	for kind, from := range map[streamKind]spawn.Stream{streamOut: p.Out, streamErr: p.Err} {
		to := x.link.stream(kind, p.Number)
		x.work.Go(func() {
			<-x.reported // the output of a rank is no sign that others run
			from.Copy(func(b []byte) bool {
				_, _ = to.Write(b) // after the launcher's end a printing rank is not held up
				return true
			}, x.job.WholeLines)
			to.Close()
		})
	}
	requests := x.link.stream(streamPMI, p.Number)
	x.work.Go(func() {
		relay(requests, p.PMI)
		requests.Close()
		close(p.Drained)
	})
	x.work.Go(func() {
		relay(p.PMI, requests)
		p.PMI.Close() // to the rank the launcher has ended
	})
	if p.Input != nil {
		go p.Input.Feed(x.spawner.Stdin) // it may block in a write to a child of the rank
	}
	x.work.Go(func() { x.await(p) })
}

// relay copies requests or replies until one side ends, which ends both.
func relay(to io.Writer, from io.Reader) {
	_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, relayBytes))
}

// await reports how a rank has ended.
func (x *proxy) await(p *spawn.Process) {
	end := p.Wait()
	text, err := json.Marshal(endedText{end.PID, end.Code, end.Signal, end.After, end.Stopped})
	if err != nil {
		panic(err) // numbers
	}
	x.link.send(frame{kind: frameEnded, rank: p.Number, payload: text})
}

// listen handles the launcher's frames until its end.
func (x *proxy) listen() {
	for {
		f, err := x.link.read()
		if err != nil || f.kind != frameSignal {
			break
		}
		for _, p := range x.processes {
			p.Signal(unix.Signal(f.payload[0]), f.payload[1] != 0)
		}
	}
	x.link.close()
	if x.spawner.OnFailure == spawn.Abort {
		for _, p := range x.processes {
			p.Signal(unix.SIGKILL, true)
		}
	}
}
