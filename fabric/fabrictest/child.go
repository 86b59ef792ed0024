package fabrictest

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Open makes the endpoint and the host of process id in a job of n.
type Open func(id proc.ID, n int) (fabric.Provider, fabric.Host, error)

// childVariable marks a copy of the test binary that a [Real] driver has started.
const childVariable = "BANYAN_FABRICTEST_CHILD"

// The descriptors that a child inherits.
const (
	childIn  = 3
	childOut = 4
)

// Main is for TestMain: it runs the tests or, in a process that [Real] has started, that process's
// body. It does not return.
func Main(m *testing.M, open Open) {
	if IsChild() {
		os.Exit(runChild(open))
	}
	os.Exit(m.Run())
}

// IsChild reports whether this process was started by [Real].
func IsChild() bool { return os.Getenv(childVariable) != "" }

// Exit codes of a child, beside those that bodies choose.
const (
	exitOrphaned = 97 // the driver is gone
	exitFailed   = 98 // it has recorded a failure
)

func runChild(open Open) int {
	c := newChild()
	s, err := c.prepare(open)
	if err != nil {
		c.Record(Record{Kind: recordFail, Text: err.Error()})
		return exitFailed
	}
	e := NewEnv(s)
	c.setEnv(e)
	if !e.Play() {
		return exitFailed
	}
	if leaks := c.before.compare(); leaks != "" {
		c.Record(Record{Kind: recordFail, Text: "left behind after Close:\n" + leaks})
		return exitFailed
	}
	_ = c.out.send(message{Op: opDone})
	return 0
}

// child is the process's side of the driver, and its Control.
type child struct {
	out    line
	jobs   chan message
	peers  chan message
	before resources
	id     proc.ID

	mu        sync.Mutex
	env       *Env // nil before setEnv
	signalled sync.Cond
	seen      map[signal]bool
}

type signal struct {
	from proc.ID
	name string
}

func newChild() *child {
	c := &child{
		out:  line{w: os.NewFile(childOut, "records")},
		jobs: make(chan message, 1), peers: make(chan message, 1),
		seen: make(map[signal]bool),
	}
	c.signalled.L = &c.mu
	go func() {
		receive(os.NewFile(childIn, "control"), c.handle)
		os.Exit(exitOrphaned)
	}()
	return c
}

// prepare opens the endpoint and receives the peers' addresses.
func (c *child) prepare(open Open) (Setup, error) {
	m := <-c.jobs
	c.id = m.ID
	countResources() // opens the descriptors that Go's runtime keeps for files
	c.before = countResources()
	p, h, err := open(m.ID, m.Job.N)
	if err != nil {
		return Setup{}, fmt.Errorf("opening the provider: %w", err)
	}
	if err := c.out.send(message{Op: opAddress, Blobs: [][]byte{p.Address()}}); err != nil {
		return Setup{}, err
	}
	return Setup{
		Job: *m.Job, ID: m.ID, Provider: p, Host: h, Addrs: (<-c.peers).Blobs,
		Control: c, Isolated: true,
	}, nil
}

func (c *child) setEnv(e *Env) {
	c.mu.Lock()
	c.env = e
	c.mu.Unlock()
}

// handle handles the driver's messages. It rings the host after it has noted a signal, from a
// goroutine of its own.
func (c *child) handle(m message) {
	switch m.Op {
	case opJob:
		c.jobs <- m
	case opPeers:
		c.peers <- m
	case opSignal:
		c.noteSignal(m.ID, m.Name)
	case opWhere:
		_ = c.out.send(message{Op: opWhere, Text: c.where()})
	}
}

func (c *child) noteSignal(from proc.ID, name string) {
	c.mu.Lock()
	c.seen[signal{from, name}] = true
	e := c.env
	c.mu.Unlock()
	c.signalled.Broadcast()
	if e != nil {
		e.Wake()
	}
}

func (c *child) where() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.env == nil {
		return "has not started"
	}
	return c.env.Where()
}

// Signal implements [Control].
func (c *child) Signal(name string) {
	c.mu.Lock()
	c.seen[signal{c.id, name}] = true
	c.mu.Unlock()
	_ = c.out.send(message{Op: opSignal, Name: name})
}

// Seen implements [Control].
func (c *child) Seen(peer proc.ID, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[signal{peer, name}]
}

// Await implements [Control].
func (c *child) Await(peer proc.ID, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.seen[signal{peer, name}] && !c.seen[signal{peer, SignalEnded}] {
		c.signalled.Wait()
	}
}

// Record implements [Control].
func (c *child) Record(r Record) { _ = c.out.send(message{Op: opRecord, Record: &r}) }

// Die implements [Control]: a real SIGKILL.
func (c *child) Die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// Exit implements [Control].
func (c *child) Exit(code int) { os.Exit(code) }
