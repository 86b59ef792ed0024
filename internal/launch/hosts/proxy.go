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
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"github.com/banyan-hpc/banyan/internal/proc"
	"golang.org/x/sys/unix"
)

// proxy is the launcher's hand on one host: it starts the ranks there, and
// passes on what they and the launcher have to say to each other. It decides
// nothing, but for what happens when the launcher is gone.
type proxy struct {
	exits    spawn.OpenExits
	link     *link
	text     jobText
	spawner  spawn.Spawner
	children []*spawn.Process
	work     sync.WaitGroup
	told     chan struct{} // closed when the launcher has been told that all ranks run
	finished chan struct{} // closed when all ranks have ended
}

// Proxy is the main function of a program that a launcher starts on a host
// through a remote shell (see [Spec.Hosts]): in and out are the standard input
// and output of the process. It changes the process's environment and its
// handling of SIGPIPE and SIGHUP, and returns when the ranks of the host have
// ended. Then the process should exit, with code 0 if the error is nil.
//
// exits may be nil, see [Spec.Exits].
//
// When in ends before the job does, the launcher is gone. Under [Abort] the
// ranks are killed; under [Continue] they go on, and Proxy reads what they print
// until they have ended.
func Proxy(in io.Reader, out io.Writer, exits spawn.OpenExits) error {
	// Notify, not Ignore: an ignored signal would stay ignored in the ranks.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGHUP)
	if _, err := io.WriteString(out, greeting+strconv.Itoa(protocolVersion)+greetingEnd); err != nil {
		return fmt.Errorf("launch: proxy: %w", err)
	}
	x := &proxy{exits: exits, link: newLink(bufio.NewReaderSize(in, chunkMax), out), told: make(chan struct{}), finished: make(chan struct{})}
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

// run returns nil also when the launcher has had a reason to end it before the
// ranks were started, or was told why they cannot be.
func (x *proxy) run() error {
	f, err := x.link.read()
	if err != nil {
		return endOf(err)
	}
	if f.kind != frameJob {
		return fmt.Errorf("%w: one of kind %d in place of the job", errFrame, f.kind)
	}
	if err := x.prepare(f.payload); err != nil {
		x.refuse(err)
		return nil
	}
	x.link.send(frame{kind: frameReady})
	if f, err = x.link.read(); err != nil {
		return endOf(err)
	}
	if f.kind != frameStart {
		return nil // the job does not come about
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

// endOf makes the end of the launcher, before there is anything to do, no error.
func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (x *proxy) refuse(err error) {
	why := strings.TrimPrefix(err.Error(), "launch: ")
	x.link.send(frame{kind: frameRefused, payload: []byte(why[:min(len(why), textMax)])})
}

// decodeJob reads what a launcher wants to be run.
func decodeJob(payload []byte) (t jobText, err error) {
	if err := json.Unmarshal(payload, &t); err != nil {
		return t, fmt.Errorf("the description of the job: %w", err)
	}
	if t.Count < 1 || t.First < 0 || t.FirstCPU < 0 || t.N > proc.MaxIDs || t.Count > t.N-t.First || len(t.Argv) == 0 {
		return t, errors.New("the description of the job makes no sense")
	}
	return t, nil
}

// prepare looks at everything that can be wrong on this host.
func (x *proxy) prepare(payload []byte) (err error) {
	if x.text, err = decodeJob(payload); err != nil {
		return err
	}
	t := &x.text
	dir := string(t.Dir)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return fmt.Errorf("working directory %s: %w: ranks run in the launcher's on every host; make it there, or name another with --wdir", dir, orNotDir(err))
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	// In the process's own environment, for PATH to hold where programs are looked
	// for. PWD is what shells believe.
	for _, e := range append([][]byte{[]byte("PWD=" + dir)}, t.Env...) {
		name, value, _ := strings.Cut(string(e), "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("variable %s: %w", pmi.Excerpt(name), err)
		}
	}
	x.spawner = spawn.Spawner{
		ID: t.Job, N: t.N, Dir: dir, Env: spawn.WithoutLauncher(os.Environ()), Bind: t.Bind, OnFailure: t.OnFailure, OpenExits: x.exits,
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
	return errors.Unwrap(err) // the path stands before it already
}

// startAll starts the ranks and tells the launcher.
func (x *proxy) startAll() error {
	started := make(chan error)
	ended := &sync.WaitGroup{}
	go x.spawner.Run(started)
	err := <-started
	var text startedText
	for _, c := range x.children {
		text.PIDs = append(text.PIDs, c.PID())
		if err != nil {
			c.Signal(unix.SIGKILL, true)
		}
		ended.Go(func() { <-c.Exited })
	}
	if err != nil {
		ended.Wait()
		close(x.finished)
		return err
	}
	list, err := json.Marshal(text)
	if err != nil {
		return err
	}
	x.link.send(frame{kind: frameStarted, payload: list})
	close(x.told)
	go func() { ended.Wait(); close(x.finished) }()
	return nil
}

// serve begins to look after a rank that has just started.
func (x *proxy) serve(c *spawn.Process) {
	x.children = append(x.children, c)
	for _, s := range []struct {
		kind streamKind
		from *spawn.Output
	}{{streamOut, &c.Stdout}, {streamErr, &c.Stderr}} {
		to := x.link.stream(s.kind, c.Rank)
		x.work.Go(func() {
			<-x.told // what ranks print is no sign that others run
			spawn.CopyLines(func(p []byte) bool {
				_, _ = to.Write(p) // a launcher that is gone does not hold up a rank that prints
				return true
			}, s.from, x.text.WholeLines)
			s.from.Close()
			to.Close()
		})
	}
	pmi := x.link.stream(streamPMI, c.Rank)
	x.work.Go(func() {
		relay(pmi, c.Conn)
		pmi.Close()
		close(c.Drained)
	})
	x.work.Go(func() {
		relay(c.Conn, pmi)
		c.Conn.Close() // to the rank the launcher is gone
	})
	if c.Stdin != nil {
		go c.Feed(x.spawner.Stdin) // it may hang in a write to what the rank has started
	}
	x.work.Go(func() { x.await(c) })
}

// relayBytes is the buffer of a relay, for a few requests.
const relayBytes = 4 << 10

// relay copies requests or replies until one side ends, which ends both.
func relay(to io.Writer, from io.Reader) {
	_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, relayBytes))
}

// await tells the launcher how a rank has ended.
func (x *proxy) await(c *spawn.Process) {
	end := c.Wait()
	text, err := json.Marshal(endedText{end.PID, end.Code, end.Signal, end.After, end.Stopped})
	if err != nil {
		panic(err) // numbers
	}
	x.link.send(frame{kind: frameEnded, rank: c.Rank, payload: text})
	close(c.Exited)
	c.Stdout.ProcessEnded()
	c.Stderr.ProcessEnded()
	if c.Stdin != nil {
		c.EndFeed()
	}
	_ = c.Conn.SetDeadline(time.Now().Add(spawn.DrainGrace)) // for the case that others hold the socket
}

// listen does what the launcher says until it is gone.
func (x *proxy) listen() {
	for {
		f, err := x.link.read()
		if err != nil || f.kind != frameSignal {
			break
		}
		for _, c := range x.children {
			c.Signal(unix.Signal(f.payload[0]), f.payload[1] != 0)
		}
	}
	x.link.close()
	if x.spawner.OnFailure == spawn.Abort {
		for _, c := range x.children {
			c.Signal(unix.SIGKILL, true)
		}
	}
}
