package detection

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/netns"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// loneDeath has the last rank die without having communicated. The others wait for it.
func loneDeath(w *banyan.World) error {
	c := w.Comm()
	switch c.Rank() {
	case c.Size() - 1:
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case 1:
		_, err := c.Recv(make([]byte, 8), banyan.AnySource, 7)
		return ranktest.WantFailure("a receive from any source", err)
	default:
		return ranktest.WantFailure("barrier", ranktest.BarrierUntilError(c))
	}
}

// A death is reported to ranks that have never communicated with the failed one, on every fabric.
func TestDeathReachesUnmetRanks(t *testing.T) {
	for name, env := range map[string][]string{
		"shm": nil, "tcp": {"BANYAN_FABRIC=tcp"}, "both": {ranktest.Nodes("a;a;b;b;a;b")},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 6
			for range ranktest.Scaled(5, 1) {
				res, out := ranktest.Job(t, launch.Continue, n, "lone death", env...)
				for _, e := range res.Ends {
					require.Equal(t, e.Rank == n-1, e.Failed(), "%v\n%s", e, out)
				}
			}
		})
	}
}

// computes has a rank make no call for longer than the timeout.
func computes(w *banyan.World) error {
	if c := w.Comm(); c.Rank() != 1 {
		return c.Barrier()
	}
	sum := 0
	for w.Now() < 7*time.Second {
		for i := range 1000 {
			sum += i
		}
	}
	return errors.Join(w.Comm().Barrier(), ranktest.CheckEqual([]byte{byte(sum >> 63)}, []byte{0}))
}

// A rank that computes without a call is not failed, however many share the cores. Each job takes a
// core for seconds: that over shared memory is for the long form. TestRecoveryWaitsForTheSilent has a
// silent rank there.
func TestComputingIsNoDeath(t *testing.T) {
	t.Parallel()
	fabrics := map[string][]string{"tcp": {"BANYAN_FABRIC=tcp"}}
	if os.Getenv("BANYAN_LONG") != "" {
		fabrics["shm"] = nil
	}
	for name, env := range fabrics {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most ranks wait for the computing one
			ranktest.Succeed(t, 3, "computes", append(env, ranktest.Steady...)...)
		})
	}
}

// stopped has rank 0 stop rank 2 until it counts as dead, and then continue it.
func stopped(w *banyan.World) error {
	c, pid := w.Comm(), make([]byte, 8)
	switch c.Rank() {
	case 2:
		binary.LittleEndian.PutUint64(pid, uint64(os.Getpid()))
		if err := c.Send(pid, 0, 1); err != nil {
			return err
		}
		_, err := c.Recv(pid, 0, 2) // never sent
		return fmt.Errorf("a rank that counts as dead goes on: %v", err)
	case 1:
		_, err := c.Recv(nil, 2, 3)
		return expectSilence(w, err)
	}
	if _, err := c.Recv(pid, 2, 1); err != nil {
		return err
	}
	victim := int(binary.LittleEndian.Uint64(pid))
	if err := syscall.Kill(victim, syscall.SIGSTOP); err != nil {
		return err
	}
	_, err := c.Recv(nil, 2, 3)
	if kerr := syscall.Kill(victim, syscall.SIGCONT); kerr != nil && kerr != syscall.ESRCH { // it may have been killed
		return kerr
	}
	return expectSilence(w, err)
}

// expectSilence checks that a receive from rank 2 has ended because of its silence. A rank that
// shares memory with it has killed it.
func expectSilence(w *banyan.World, err error) error {
	r, rerr := w.Route(2)
	want := "silent"
	if r.Fabric == "shm" {
		want = "silent for longer than detect.timeout, and killed for that"
	}
	if rerr == nil && (err == nil || !strings.Contains(err.Error(), want)) {
		return fmt.Errorf("recv: want the end of rank 2 as %q, got: %v", want, err)
	}
	return ranktest.WantFailure("recv", err)
}

// A rank that was stopped for longer than the timeout counts as failed, and does not continue after
// SIGCONT.
func TestStoppedForTooLong(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{"shm": nil, "tcp": {"BANYAN_FABRIC=tcp"},
		"unix": {"BANYAN_FABRIC=unix"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			res, out := ranktest.Job(t, launch.Continue, 3, "stopped", append(env, ranktest.Quick...)...)
			require.False(t, res.Ends[0].Failed() || res.Ends[1].Failed(), "%v\n%s", res.Ends, out)
			if name == "shm" { // killed at once by a rank on its node
				require.Equal(t, unix.SIGKILL, res.Ends[2].Signal, "%v\n%s", res.Ends, out)
				words := regexp.MustCompile(`banyan: rank [01]: rank 2 counts as dead and has been killed: ` +
					`it (was silent for \d.*s, though all were asked|was silent for so long, as others have found); ` +
					`detect.timeout is 2s, raise it \(BANYAN_DETECT_TIMEOUT\) .*\n`)
				require.Len(t, words.FindAllString(out, -1), 1, out) // only the killing rank reports it
				return
			}
			require.Regexp(t, `(?m)^banyan: rank [01]: rank 2 counts as dead and ends itself `+
				`if it was only stopped or starved: `+
				`it was silent for \d.*s, though all were asked; detect.timeout is 2s`, out)
			require.Equal(t, banyan.ExitFenced, res.Ends[2].Code, "%v\n%s", res.Ends, out)
			require.Regexp(t, `(?m)^banyan: rank 2 ends itself: this process counts as dead at rank [01], `, out)
			require.Contains(t, out, "detect.timeout")
		})
	}
}

// absentees compute all the time. The last stops until one of the others knows that it counts as
// failed.
func absentees(w *banyan.World) error {
	c, file := w.Comm(), os.Getenv(ranktest.FIFOEnv)
	if c.Rank() == c.Size()-1 {
		if err := os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			return err
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return err
		}
		_, err := c.Recv(nil, 0, 2) // never sent
		return fmt.Errorf("a rank that counts as dead goes on: %v", err)
	}
	w.Sleep(4 * time.Second)
	err := ranktest.WantFailure("barrier", ranktest.BarrierUntilError(c))
	text, rerr := os.ReadFile(file)
	pid, perr := strconv.Atoi(string(text))
	if err := errors.Join(err, rerr, perr); err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != syscall.ESRCH {
		return err
	}
	return nil
}

// Computing ranks answer indirect probes for a silent one in time, over connections made for them.
// No rank takes itself for cut off.
func TestSilenceWhileAllCompute(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{"tcp": {"BANYAN_FABRIC=tcp"}, "shm": nil} {
		if testing.Short() && name == "shm" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			const n = 17
			file := filepath.Join(t.TempDir(), "pid")
			res, out := ranktest.Job(t, launch.Continue, n, "absentees",
				append(env, ranktest.FIFOEnv+"="+file, "BANYAN_DETECT_TIMEOUT=5s")...)
			for _, e := range res.Ends[:n-1] {
				require.False(t, e.Failed(), "%v\n%s", e, out)
			}
			last := res.Ends[n-1]
			require.True(t, last.Code == banyan.ExitFenced || last.Signal == unix.SIGKILL, "%v\n%s", last, out)
		})
	}
}

// orphans continue after the launcher has been killed, and detect a death.
func orphans(w *banyan.World) error {
	c := w.Comm()
	if err := c.Barrier(); err != nil {
		return err
	}
	line, err := os.OpenFile(os.Getenv(ranktest.FIFOEnv), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	fmt.Fprintln(line, "ready", c.Rank())
	if c.Rank() == c.Size()-1 {
		if _, err := os.ReadFile(os.Getenv(ranktest.FIFOEnv) + "2"); err != nil { // until the launcher is dead
			return err
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	err = ranktest.WantFailure("barrier", ranktest.BarrierUntilError(c))
	for range 2 { // there are no fences any more, so no rank leaves before all know
		left := c.Size() - 1
		_, serr := c.Sendrecv(nil, (c.Rank()+1)%left, 0, nil, (c.Rank()+left-1)%left, 0)
		err = errors.Join(err, serr)
	}
	err = errors.Join(err, w.Finalize())
	fmt.Fprintln(line, "told", c.Rank(), err)
	return line.Close()
}

const orphanRanks = 4

// A job goes on after its launcher has been killed, and so does its detector.
func TestLauncherKilled(t *testing.T) {
	for name, env := range map[string]string{"shm": "BANYAN_FABRIC=shm", "tcp": "BANYAN_FABRIC=tcp"} {
		t.Run(name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			require.NoError(t, syscall.Mkfifo(fifo, 0o600))
			require.NoError(t, syscall.Mkfifo(fifo+"2", 0o600))
			exe, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), ranktest.RoleEnv+"=launches", ranktest.FIFOEnv+"="+fifo, env)
			cmd.Stderr = os.Stderr // the ranks keep it after the launcher's death
			require.NoError(t, cmd.Start())
			line, err := os.Open(fifo)
			require.NoError(t, err)
			in := bufio.NewScanner(line)
			for range orphanRanks {
				require.True(t, in.Scan())
			}
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
			require.NoError(t, os.WriteFile(fifo+"2", nil, 0))
			var told []string
			for in.Scan() {
				told = append(told, in.Text())
			}
			require.ElementsMatch(t, []string{"told 0 <nil>", "told 1 <nil>", "told 2 <nil>"}, told)
			require.NoError(t, line.Close())
		})
	}
}

// outage has rank 0 cut the network for a while that is shorter than the timeout.
func outage(w *banyan.World) error {
	c := w.Comm()
	for i := range 3 {
		if err := c.Barrier(); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println("cut")
			w.Sleep(700 * time.Millisecond)
			fmt.Println("heal")
		}
		if _, err := c.Sendrecv([]byte{byte(i)}, (c.Rank()+1)%c.Size(), 0, make([]byte, 1),
			(c.Rank()+c.Size()-1)%c.Size(), 0); err != nil {
			return err
		}
	}
	return nil
}

// A cut between hosts that heals in time is no failure.
func TestOutage(t *testing.T) {
	if !ranktest.Namespaces(t) {
		return
	}
	res, out := ranktest.OnHosts(t, netns.Config{Hosts: 3}, "outage", func(net *netns.Net, word string) error {
		if word == "cut" {
			return net.Isolate(2)
		}
		return net.Heal()
	}, "BANYAN_DETECT_PERIOD=100ms", "BANYAN_DETECT_TIMEOUT=8s") // TCP repeats at growing intervals
	for _, e := range res.Ends {
		require.False(t, e.Failed(), "%v\n%s", e, out)
	}
}

// splitApart has rank 0 cut off the last host permanently, some time after the start, and prints
// how long the others took to know.
func splitApart(w *banyan.World) error {
	c := w.Comm()
	last, cut := w.Now(), false
	for {
		if err := c.Barrier(); err != nil {
			fmt.Fprintf(os.Stderr, "rank %d knows after %v\n", c.Rank(), (w.Now() - last).Round(time.Millisecond))
			return ranktest.WantFailure("barrier", err)
		}
		last = w.Now()
		if c.Rank() == 0 && !cut && last > 3*time.Second {
			cut = true
			fmt.Println("cut")
		}
	}
}

// When hosts are cut off permanently the larger side goes on, and the others end themselves.
func TestHostsApart(t *testing.T) {
	t.Parallel() // it waits most of the time
	if !ranktest.Namespaces(t) {
		return
	}
	res, out := ranktest.OnHosts(t, netns.Config{Hosts: 4}, "split", func(net *netns.Net, word string) error { return net.Isolate(3) },
		ranktest.Quick...)
	for _, e := range res.Ends[:3] {
		require.False(t, e.Failed(), "%v\n%s", e, out)
	}
	require.Equal(t, banyan.ExitFenced, res.Ends[3].Code, "%v\n%s", res.Ends[3], out)
	require.Contains(t, out, "banyan: rank 3 ends itself: ")
	require.Contains(t, out, "1 of 4")
	t.Log(out)
}

// Wrong times of the detector are reported before the start.
func TestWithDetectionChecks(t *testing.T) {
	for want, o := range map[string]banyan.Option{
		"less than 3 times detect.period": banyan.WithDetection(time.Second, 2*time.Second),
		"WithDetection: detect.period":    banyan.WithDetection(time.Microsecond, time.Second),
		"WithDetection: detect.timeout":   banyan.WithDetection(time.Second, 1500*time.Microsecond),
	} {
		err := banyan.Simulate(1, banyan.Simulation{Options: []banyan.Option{o}},
			func(*banyan.World) error { return nil })
		require.ErrorIs(t, err, banyan.ErrArgument)
		require.ErrorContains(t, err, want)
	}
	for _, o := range []banyan.Option{banyan.WithDetection(0, 0), banyan.WithDetection(time.Second, 3*time.Second)} {
		require.NoError(t, banyan.Simulate(2, banyan.Simulation{Options: []banyan.Option{o}},
			func(w *banyan.World) error { return w.Comm().Barrier() }))
	}
}
