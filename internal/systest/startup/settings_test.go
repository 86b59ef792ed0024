package startup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// lengthEnv is the length of the message of the role "held back", and for each rank whether its
// message must leave at once: "12000 true false".
const lengthEnv = "BANYAN_TEST_HELD"

// heldBack has each rank send a message for which no receive is posted: an eager one completes at
// once, an announced one not before its receive.
func heldBack(w *banyan.World) error {
	length, early := 0, [2]bool{}
	if _, err := fmt.Sscan(os.Getenv(lengthEnv), &length, &early[0], &early[1]); err != nil {
		return err
	}
	if os.Getenv("BANYAN_FABRIC") == "" {
		if err := earnRings(w.Comm()); err != nil {
			return err
		}
	}
	for sender := range 2 {
		var err error
		if w.Comm().Rank() == sender {
			err = sendHeld(w.Comm(), ranktest.Pattern(sender, length), early[sender])
		} else {
			err = recvHeld(w.Comm(), sender, ranktest.Pattern(sender, length))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// earnRings sends messages until each direction has its long ring, without which the first long ones are
// announced.
func earnRings(c *banyan.Comm) error {
	other := 1 - c.Rank()
	for range 16 {
		buf := make([]byte, 5000)
		if _, err := c.Sendrecv(buf, other, 0, make([]byte, len(buf)), other, 0); err != nil {
			return err
		}
	}
	return nil
}

func sendHeld(c *banyan.Comm, msg []byte, early bool) error {
	req := c.Isend(msg, 1-c.Rank(), 1)
	var err error
	if early { // as soon as there is a connection; an announced message would wait for ever
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		if _, err = req.WithContext(ctx).Wait(); err != nil {
			return fmt.Errorf("rank %d: %d bytes without a receive: %w", c.Rank(), len(msg), err)
		}
	} else if _, done, failed := req.Test(); failed != nil || done {
		err = errors.Join(failed, fmt.Errorf("rank %d: %d bytes without a receive: done %t", c.Rank(), len(msg), done))
	}
	if err = errors.Join(err, c.Send(nil, 1-c.Rank(), 2)); err != nil {
		return err
	}
	_, err = req.Wait()
	return err
}

func recvHeld(c *banyan.Comm, from int, want []byte) error {
	if _, err := c.Recv(nil, from, 2); err != nil { // from now on the other message is received
		return err
	}
	buf := make([]byte, len(want))
	if _, err := c.Recv(buf, from, 1); err != nil {
		return err
	}
	if string(buf) != string(want) {
		return errors.New("the message is wrong")
	}
	return nil
}

// settle writes a file of settings and returns the variable that names it.
func settle(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tune.conf")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return "BANYAN_TUNING=" + path
}

// The environment and the files take effect in a job of processes, and the option of the program
// takes precedence over both.
func TestSettingsHaveTheirEffect(t *testing.T) {
	for name, tc := range map[string]struct {
		early string
		env   []string
	}{
		"default": {"true true", nil},
		"file":    {"false false", []string{settle(t, "shm.eager.near = 8k\nshm.eager.reply = 8k\n")}},
		"another machine's": {"true true",
			[]string{settle(t, "[amd64 Some Other 9 CPUs]\nshm.eager.near = 8k\nshm.eager.reply = 8k\n")}},
		"variable": {"false false", []string{"BANYAN_SHM_EAGER=8k"}},
		"variable before file": {"true true",
			[]string{settle(t, "shm.eager.near = 8k\n"), "BANYAN_SHM_EAGER_NEAR=16k"}},
		"option before both": {"true true",
			[]string{settle(t, "shm.eager = 8k\n"), "BANYAN_SHM_EAGER=8k", ranktest.EagerEnv + "=20000"}},
		"longer than a frame":     {"true true", []string{"BANYAN_SHM_RING_BYTES=16k"}},
		"unexpected has no room":  {"true true", []string{"BANYAN_UNEXPECTED=1"}}, // room for four of the eager limit
		"no kernel copy, no hint": {"true true", []string{"BANYAN_SHM_KERNEL_COPY=off"}},
		"sockets":                 {"true true", []string{"BANYAN_FABRIC=unix", "BANYAN_SHM_EAGER_NEAR=8k"}},
		// The second rank answers
		"sockets by variable": {"false true", []string{"BANYAN_FABRIC=tcp", "BANYAN_TCP_EAGER=8k"}},
		"sockets by file": {"false false",
			[]string{"BANYAN_FABRIC=tcp", settle(t,
				"tcp.eager = 8k\ntcp.reply = 8k\ntcp.outbox = 128k\ntcp.heal = 2s\n")}},
	} {
		t.Run(name, func(t *testing.T) {
			ranktest.Succeed(t, 2, "held back", append(tc.env, lengthEnv+"=12000 "+tc.early)...)
		})
	}
}

// Two ranks read different files: each decides how it sends, and rings of different sizes carry
// messages of every protocol.
func TestRanksWithDifferentFiles(t *testing.T) {
	small := settle(t, "shm.eager.near = 8k\nshm.eager.reply = 8k\nshm.ring.bytes = 16k\n"+
		"shm.ring.lines = 64\nwait.spins = 0\nunexpected = 64k\n")
	large := settle(t, "shm.eager = 4m\nshm.ring.bytes = 1m\nshm.kernel_copy = off\nwait.yields = 0\n")
	for _, role := range []string{"held back", "ring", "crowd", "modes"}[:ranktest.Scaled(4, 2)] {
		for early, files := range map[string][]string{"false true": {small, large}, "true false": {large, small}} {
			t.Setenv(lengthEnv, "12000 "+early)
			for i, u := range startUnled(t, 2, role, files...) {
				require.NoError(t, u.Wait(), "%s, rank %d: %s", role, i, u.out.String())
			}
		}
	}
}

// A rank with a wrong setting reports its place and does not start.
func TestWrongSettings(t *testing.T) {
	for env, want := range map[string]string{
		settle(t, "\nshm.eager.near = 2m\n"): "tune.conf:2: shm.eager.near = 2m: 64 … 1m is possible",
		"BANYAN_SHM_EAGER=8q":                "BANYAN_SHM_EAGER=8q",
		"BANYAN_TCP_OUTBOX=3m":               "tcp.outbox = 3m: 128k … 1g, a power of two is possible",
		"BANYAN_TCP_HEAL=soon":               "tcp.heal = soon: 100ms … 60m is possible",
		"BANYAN_SHM_EGER=8k":                 "is BANYAN_SHM_EAGER meant?",
		"BANYAN_TUNING=/no/such/file":        "there is no such file",
	} {
		res, out := ranktest.Job(t, launch.Continue, 2, "ring", env)
		require.NotZero(t, res.Code)
		require.Contains(t, out, want)
	}
	for want, o := range map[string]banyan.Option{
		"WithEagerLimit: shm.eager = 65m: auto, or 1 … 64m is possible": banyan.WithEagerLimit(65 << 20),
		"WithUnexpectedLimit: unexpected = -1: 1 … 1g is possible":      banyan.WithUnexpectedLimit(-1),
	} {
		_, err := banyan.Init(o)
		require.ErrorIs(t, err, banyan.ErrArgument)
		require.ErrorContains(t, err, want)
	}
}

// WithLog reports the differences from the defaults, and unused files.
func TestSettingsAreLogged(t *testing.T) {
	name, path, _ := strings.Cut(settle(t, "wait.spins = 9\n[amd64 Some Other 9 CPUs]\nshm.eager.near = 8k\n"), "=")
	t.Setenv(name, path)
	t.Setenv("BANYAN_SHM_RING_BYTES", "512k")
	var text bytes.Buffer
	w, err := banyan.Init(banyan.WithKernelCopy(false), banyan.WithLog(slog.New(slog.NewTextHandler(&text, nil))))
	require.NoError(t, err)
	require.NoError(t, w.Finalize())
	log := strings.Split(strings.TrimSpace(text.String()), "\n")
	require.Len(t, log, 4)
	require.Regexp(t, `msg="settings: .*tune.conf has nothing measured on this machine, \[.*\]; `+
		`its parts are for \[amd64 Some Other 9 CPUs\]: run ftbench tune"$`, log[0])
	require.Contains(t, log[1], `msg="settings: shm.ring.bytes = 512k" origin=BANYAN_SHM_RING_BYTES`)
	require.Contains(t, log[2], `msg="settings: shm.kernel_copy = off" origin=WithKernelCopy`)
	require.Contains(t, log[3], `msg="settings: wait.spins = 9" origin=`+path+":1")
}

// The simulator ignores files and variables: a seed means one run.
func TestSimulatorIgnoresSettings(t *testing.T) {
	t.Setenv("BANYAN_SHM_EAGER", "nonsense")
	t.Setenv("BANYAN_TUNING", "/no/such/file")
	require.NoError(t, banyan.Simulate(2, banyan.Simulation{}, ranktest.Ring))
}

// inForeignHome starts a rank as a user without access to HOME.
func inForeignHome() error {
	if err := errors.Join(syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
		return err
	}
	w, err := banyan.Init()
	if err != nil {
		return err
	}
	return w.Finalize()
}

// An unreadable file of settings prevents no start, as in the home directory of a caller of sudo,
// unless it was named explicitly.
func TestSettingsOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // there is no other user
	}
	home := t.TempDir()
	dir := filepath.Join(home, ".config", "banyan")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	file := filepath.Join(dir, "tune.conf")
	require.NoError(t, os.WriteFile(file, []byte("wait.spins = 7\n"), 0o600))
	require.NoError(t, os.Chmod(home, 0o700))
	res, out := ranktest.Job(t, launch.Continue, 1, "home", "HOME="+home, "XDG_CONFIG_HOME=", "BANYAN_TUNING=")
	require.False(t, res.Ends[0].Failed(), out)
	require.Contains(t, out, "banyan: rank 0: settings: "+home)
	require.Contains(t, out, "not to be read by this user, and left aside")
	res, out = ranktest.Job(t, launch.Continue, 1, "home", "HOME="+home, "BANYAN_TUNING="+file)
	require.True(t, res.Ends[0].Failed())
	require.Contains(t, out, "let user 65534 read it, or do without files with BANYAN_TUNING=none")
}

// debugDiffers has one rank of three check its calls. None starts, and none waits.
func debugDiffers() error {
	_, err := banyan.Init(banyan.WithDebug(os.Getenv("PMI_RANK") == "2"))
	if !errors.Is(err, banyan.ErrArgument) || !strings.Contains(err.Error(), "rank 0 and rank 2 differ in debug") {
		return fmt.Errorf("got %w, want that rank 2 differs", err)
	}
	fmt.Fprintln(os.Stderr, "as expected")
	return nil
}

func TestDebugAlike(t *testing.T) {
	_, text := ranktest.Job(t, launch.Continue, 3, "debug differs")
	require.Equal(t, 3, strings.Count(text, "as expected"), text)
}

// ownNetworks uses the networks of the program, not those of BANYAN_NETWORKS.
func ownNetworks() error {
	w, err := banyan.Init(banyan.WithFabrics("tcp"), banyan.WithNetworks("lo"))
	if err != nil {
		return err
	}
	return errors.Join(w.Comm().Barrier(), w.Finalize())
}

func TestNetworksOfTheProgram(t *testing.T) {
	res, text := ranktest.Job(t, launch.Continue, 2, "own networks", "BANYAN_NETWORKS=nothere0")
	require.Zero(t, res.Code, text)
	require.NotContains(t, text, "nothere0")
}
