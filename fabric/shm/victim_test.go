package shm

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// victimVariable makes a copy of the test binary a victim; its value is the role.
const victimVariable = "BANYAN_SHM_VICTIM"

// role describes a victim.
type role struct {
	Self                       proc.ID
	MaxProcs, Lines, BulkBytes int
	Ids                        int    // endpoints: Self and the next ones
	Resident                   int    // megabytes
	Threads                    int    // that are busy
	Node                       string // the file of placesFor, in which it has the second place
}

// VictimMain is for TestMain: in a victim's process it runs the victim, and does not return.
func VictimMain() {
	text := os.Getenv(victimVariable)
	if text == "" {
		return
	}
	os.Unsetenv(victimVariable)
	if err := playVictim(text); err != nil {
		fmt.Fprintln(os.Stderr, "victim:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func playVictim(text string) error {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	var all []*Provider
	for i := range max(r.Ids, 1) {
		cfg := Config{Self: r.Self + proc.ID(i), MaxProcs: r.MaxProcs, Lines: r.Lines, BulkBytes: r.BulkBytes}
		if r.Node != "" {
			var err error
			if cfg.Node, err = placeOf(r.Node, 1); err != nil {
				return err
			}
		}
		p, err := Open(cfg)
		if err != nil {
			return err
		}
		all = append(all, p)
		fmt.Println(hex.EncodeToString(p.Address()))
	}
	ballast := make([]byte, r.Resident<<20)
	for i := 0; i < len(ballast); i += pageBytes {
		ballast[i] = 1
	}
	for range r.Threads {
		go func() {
			for n := 0; ; n++ {
				_ = n
			}
		}()
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := obey(all, strings.Fields(in.Text())); err != nil {
			return err
		}
		fmt.Println("done")
	}
	ballast[0] = 2
	return in.Err()
}

// obey executes the test's orders, with all endpoints.
func obey(all []*Provider, words []string) error {
	for _, p := range all {
		p.Poll(&newObserver().Sink)
		switch words[0] {
		case "dial": // with this address, and send a frame
			a, err := hex.DecodeString(words[1])
			if err != nil {
				return err
			}
			c, err := p.Dial(fabric.ConnectSpec{Peer: 0, Address: a})
			if err != nil {
				return err
			}
			c.TrySend(fabric.ClassTest, uint64(p.cfg.Self), nil)
		case "depart":
			p.Depart()
		case "close":
			if err := p.Close(); err != nil {
				return err
			}
		case "exit":
			os.Exit(3)
		case "churn": // threads come and go
			var gone sync.WaitGroup
			for range 10 {
				gone.Go(runtime.LockOSThread)
			}
			gone.Wait()
		case "exec":
			return unix.Exec("/bin/cat", []string{"cat"}, os.Environ())
		}
	}
	return nil
}

// victim is a victim on the test's side.
type victim struct {
	t         testing.TB
	cmd       *exec.Cmd
	in        io.WriteCloser
	out       *bufio.Reader
	addresses [][]byte
}

func spawn(t testing.TB, r role) *victim {
	t.Helper()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	exe, err := os.Executable()
	require.NoError(t, err)
	v := &victim{t: t, cmd: exec.Command(exe)}
	v.cmd.Env = append(os.Environ(), victimVariable+"="+string(text))
	v.cmd.Stderr = os.Stderr
	v.in, err = v.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := v.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, v.cmd.Start())
	t.Cleanup(func() { _ = v.cmd.Process.Kill(); _ = v.cmd.Wait() })
	v.out = bufio.NewReader(out)
	for range max(r.Ids, 1) {
		a, err := hex.DecodeString(v.line())
		require.NoError(t, err)
		v.addresses = append(v.addresses, a)
	}
	return v
}

func (v *victim) line() string {
	v.t.Helper()
	line, err := v.out.ReadString('\n')
	require.NoError(v.t, err)
	return strings.TrimSpace(line)
}

// write sends an order without waiting for its result.
func (v *victim) write(order string) {
	v.t.Helper()
	_, err := io.WriteString(v.in, order+"\n")
	require.NoError(v.t, err)
}

func (v *victim) order(order string) {
	v.t.Helper()
	v.write(order)
	require.Equal(v.t, "done", v.line())
}

// connect connects an observer and the victim's first endpoint, and makes the victim connect to it
// if it is process 0, and send a frame.
func (v *victim) connect(p *Provider) *Conn {
	v.t.Helper()
	c, err := p.Dial(fabric.ConnectSpec{Peer: 1, Address: v.addresses[0]})
	require.NoError(v.t, err)
	if p.cfg.Self == 0 {
		v.order("dial " + hex.EncodeToString(p.Address()))
	}
	return c
}

// kill kills.
func (v *victim) kill() { require.NoError(v.t, v.cmd.Process.Kill()) }

// signaled waits for the process and returns the signal that killed it.
func (v *victim) signaled() unix.Signal {
	_ = v.cmd.Wait()
	return v.cmd.ProcessState.Sys().(interface{ Signal() unix.Signal }).Signal()
}

// sleepUntil polls, sleeping at the bell, until cond holds.
func sleepUntil(p *Provider, e *observer, so func() bool) {
	for !so() {
		p.bell.Arm()
		if !p.Ready() {
			p.bell.Sleep(-1)
		}
		p.bell.Disarm()
		p.Poll(&e.Sink)
	}
}

// end sleeps until the observer has seen an end, and polls once more, as the next Poll kills what runs in the peer's
// place.
func (e *observer) end(p *Provider) proc.Cause {
	sleepUntil(p, e, func() bool { return len(e.ends) > 0 })
	p.Poll(&e.Sink)
	return e.ends[0]
}

// stopWatcher disables methods of detection of an observer.
func (p *Provider) stopWatcher(c *Conn, to ...evidence) {
	for _, by := range to {
		switch by {
		case byPidfd:
			p.watch.registerLate()
			p.watch.set.Remove(c.reader.process())
		case byWord:
			p.watch.words.Remove(c.watchKey)
		case byExits:
			p.watch.set.Remove(p.cfg.Exits.FD())
		case byPoll:
			p.deaths.forget(c)
		}
	}
}
