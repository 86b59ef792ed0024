package startup

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// unled is a rank started without launcher.
type unled struct {
	*exec.Cmd
	out bytes.Buffer
}

// startUnled starts n ranks in a role with RANK and WORLD_SIZE. Each may have one variable of its
// own.
func startUnled(t *testing.T, n int, role string, own ...string) []*unled {
	t.Helper()
	return startUnledIn(t, n, append(os.Environ(), ranktest.RoleEnv+"="+role), own...)
}

// startUnledIn is startUnled with an environment.
func startUnledIn(t *testing.T, n int, env []string, own ...string) []*unled {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	port := freePort(t)
	ranks := make([]*unled, n)
	for r := range ranks {
		u := &unled{Cmd: exec.Command(exe)}
		u.Env = append(slices.Clone(env), "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port,
			fmt.Sprintf("RANK=%d", r), fmt.Sprintf("WORLD_SIZE=%d", n))
		if r < len(own) {
			u.Env = append(u.Env, own[r])
		}
		u.Stdout, u.Stderr = &u.out, &u.out
		require.NoError(t, u.Start())
		t.Cleanup(func() { _ = u.Process.Kill() })
		ranks[r] = u
	}
	return ranks
}

// ports counts the tried ports, from a random one on.
var ports = sync.OnceValue(func() *atomic.Int32 {
	var n atomic.Int32
	n.Store(rand.Int32N(5000))
	return &n
})

// freePort finds a port without listener, below those that the kernel assigns itself. No two tests
// get the same, and other packages' tests have other ranges.
func freePort(t *testing.T) string {
	for range 100 {
		port := strconv.Itoa(25000 + int(ports().Add(1))%5000)
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}

func TestStartWithoutLauncher(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		for _, u := range startUnled(t, n, "ring") {
			require.NoError(t, u.Wait(), u.out.String())
		}
	}
}

// Rank 0 has been the server of the rendezvous. Its death is reported like that of any other rank.
func TestDeathOfRankZeroWithoutLauncher(t *testing.T) {
	ranks := startUnled(t, 3, "first dies")
	_ = ranks[0].Wait()
	require.Equal(t, syscall.SIGKILL, ranks[0].ProcessState.Sys().(syscall.WaitStatus).Signal())
	for _, u := range slices.Backward(ranks[1:]) {
		require.NoError(t, u.Wait(), u.out.String())
	}
}

// A rank 0 on another machine that is stopped, and that no other rank can kill, answers no request. It blocks the
// survivors no longer than the detector needs.
func TestStoppedRankZeroWithoutLauncher(t *testing.T) {
	t.Parallel() // it waits for the detector
	env := append(os.Environ(), ranktest.RoleEnv+"=first stops", "BANYAN_FABRIC=tcp")
	ranks := startUnledIn(t, 3, append(env, ranktest.Steady...), "BANYAN_NODE=a", "BANYAN_NODE=b", "BANYAN_NODE=b")
	for _, u := range ranks[1:] {
		require.NoError(t, u.Wait(), u.out.String())
	}
	require.NoError(t, ranks[0].Process.Kill())
	require.Error(t, ranks[0].Wait(), ranks[0].out.String())
}

// firstDies has rank 0 die, and firstStops has it stop. The others communicate without it and come to Finalize.
func firstDies(w *banyan.World) error  { return firstGets(w, syscall.SIGKILL) }
func firstStops(w *banyan.World) error { return firstGets(w, syscall.SIGSTOP) }

func firstGets(w *banyan.World, sig syscall.Signal) error {
	if err := ranktest.Ring(w); err != nil {
		return err
	}
	c := w.Comm()
	if c.Rank() == 0 {
		return syscall.Kill(os.Getpid(), sig)
	}
	if _, err := c.Recv(make([]byte, 8), 0, 1); !errors.Is(err, banyan.ErrProcFailed) {
		return fmt.Errorf("receive from the dead: %v", err)
	}
	peer := 3 - c.Rank()
	out, in := ranktest.Pattern(c.Rank(), 70_000), make([]byte, 70_000)
	if _, err := c.Sendrecv(out, peer, 4, in, peer, 4); err != nil {
		return err
	}
	if !bytes.Equal(in, ranktest.Pattern(peer, len(in))) {
		return errors.New("the survivors' message is wrong")
	}
	return nil
}
