package join

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// answer plays a launcher on conn: it replies to the i-th request with the
// i-th line, and closes when there is none left.
func answer(conn *os.File, replies []string) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for _, reply := range replies {
		if _, err := r.ReadString('\n'); err != nil {
			return
		}
		if _, err := conn.WriteString(reply); err != nil {
			return
		}
	}
}

// pair returns two ends of a socket, both polled.
func pair(t testing.TB) (a, b *os.File) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	a, err = openPMI(fds[0])
	require.NoError(t, err)
	b, err = openPMI(fds[1])
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

var opening = []string{
	"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
	"cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n",
	"cmd=my_kvsname kvsname=k\n",
	"cmd=get_result rc=-1 msg=not_found\n",
}

// talk joins a launcher that gives these replies and, if that works, calls do.
func talk(t *testing.T, replies []string, do func(*Job) error) error {
	launcher, rank := pair(t)
	done := make(chan struct{})
	go func() { defer close(done); answer(launcher, replies) }()
	defer func() { rank.Close(); <-done }()
	j, err := newJob(context.Background(), place{rank: 0, size: 2}, rank)
	if err != nil {
		return err
	}
	return do(j)
}

func TestClientAgainstABrokenLauncher(t *testing.T) {
	ctx := context.Background()
	join := func(*Job) error { return nil }
	fence := func(j *Job) error { return j.Fence(ctx) }
	get := func(j *Job) error { _, err := j.Get(ctx, 1, "k"); return err }
	put := func(j *Job) error { return j.Put(ctx, "k", []byte("v")) }
	after := func(more ...string) []string { return append(opening[:len(opening):len(opening)], more...) }
	for _, c := range []struct {
		name    string
		replies []string
		do      func(*Job) error
		is      error
		says    string
	}{
		{"gone at once", nil, join, pmi.ErrLauncherGone, "init"},
		{"not PMI", []string{"HTTP/1.1 400 Bad Request\n"}, join, pmi.ErrProtocol, "HTTP"},
		{"no newline", []string{"cmd=response_to_init"}, join, pmi.ErrLauncherGone, "inside the line"},
		{"endless line", []string{strings.Repeat("x", 1<<14+1)}, join, pmi.ErrProtocol, "longer than"},
		{"another command", []string{"cmd=maxes\n"}, join, pmi.ErrProtocol, "response_to_init expected"},
		{"version", []string{"cmd=response_to_init pmi_version=2 rc=0\n"}, join, pmi.ErrProtocol, "version 1 wanted"},
		{"refused", []string{"cmd=response_to_init pmi_version=1 rc=-1\n"}, join, pmi.ErrRefused, "init"},
		{"no maxes", []string{opening[0], "cmd=maxes\n"}, join, pmi.ErrProtocol, "keylen_max"},
		{"tiny maxes", []string{opening[0], "cmd=maxes keylen_max=64 vallen_max=8\n", opening[2]}, join, pmi.ErrProtocol, "no room"},
		{"negative maxes", []string{opening[0], "cmd=maxes keylen_max=-1 vallen_max=-1\n", opening[2]}, join, pmi.ErrProtocol, "no room"},
		{"no name", []string{opening[0], opening[1], "cmd=my_kvsname\n"}, join, pmi.ErrProtocol, "without a name"},
		{"bad mapping", []string{opening[0], opening[1], opening[2], "cmd=get_result rc=0 value=(vector,(0,0,0))\n"}, join, pmi.ErrProtocol, "mapping"},
		{"barrier fails", after("cmd=barrier_out rc=3 msg=no\n"), fence, pmi.ErrRefused, "rc=3"},
		{"barrier answered by another command", after("cmd=put_result rc=0\n"), fence, pmi.ErrProtocol, "barrier_out expected"},
		{"barrier names nonsense", after("cmd=barrier_out rc=1 lost=AAAA total=1\n"), fence, pmi.ErrProtocol, "lost"},
		{"gone in the barrier", opening, fence, pmi.ErrLauncherGone, "barrier"},
		{"put refused", after("cmd=put_result rc=-1 msg=duplicate_key\n"), put, pmi.ErrRefused, "duplicate_key"},
		{"not found, Hydra", after("cmd=get_result rc=-1 msg=key_not_found value=unknown\n"), get, pmi.ErrNotFound, "rank 1"},
		{"not found, Slurm", after("cmd=get_result rc=1\n"), get, pmi.ErrNotFound, "rank 1"},
		{"nonsense value", after("cmd=get_result rc=0 value=nonsense\n"), get, nil, "number of pieces"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := talk(t, c.replies, c.do)
			require.ErrorContains(t, err, c.says)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
		})
	}
}

// However the connection ends, the launcher is gone.
func TestEndsOfTheConnection(t *testing.T) {
	for _, end := range []error{io.EOF, unix.EPIPE, unix.ECONNRESET, unix.ETIMEDOUT, unix.EHOSTUNREACH, net.ErrClosed} {
		require.ErrorIs(t, new(client).fail(t.Context(), "get", end), pmi.ErrLauncherGone)
	}
}

// A rank 0 that counts as failed need not answer: also a request that has been made before ends.
func TestLostRankZero(t *testing.T) {
	launcher, rank := pair(t)
	go func() {
		r := bufio.NewReader(launcher)
		for _, reply := range opening {
			_, _ = r.ReadString('\n')
			_, _ = launcher.WriteString(reply)
		}
	}()
	j, err := newJob(t.Context(), place{rank: 1, size: 2}, rank)
	require.NoError(t, err)
	j.launched = false
	fenced, got := make(chan error), make(chan error)
	go func() { fenced <- j.Fence(t.Context()) }()
	from := bufio.NewReader(launcher)
	_, err = from.ReadString('\n')
	require.NoError(t, err)
	go func() { _, err := j.Get(t.Context(), 0, "k"); got <- err }()
	_, err = from.ReadString('\n') // both requests have arrived
	require.NoError(t, err)
	require.NoError(t, j.Lose(t.Context(), 0))
	require.ErrorIs(t, <-fenced, pmi.ErrLauncherGone)
	require.ErrorIs(t, <-got, pmi.ErrLauncherGone)
	require.ErrorIs(t, j.Put(t.Context(), "k", nil), pmi.ErrLauncherGone)
	require.NoError(t, j.Finalize(t.Context()))
}

func TestGivingUpEndsTheUseOfTheLauncher(t *testing.T) {
	launcher, rank := pair(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		r := bufio.NewReader(launcher)
		for _, reply := range append(opening[:len(opening):len(opening)], "") {
			_, _ = r.ReadString('\n')
			_, _ = launcher.WriteString(reply)
		}
	}()
	j, err := newJob(context.Background(), place{size: 2}, rank)
	require.NoError(t, err)
	require.Nil(t, j.Local(), "the launcher has not said")

	before, cancelled := context.WithCancel(context.Background())
	cancelled()
	require.ErrorIs(t, j.Fence(before), context.Canceled)

	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-served; cancel() }() // the request has arrived, no reply will come
	require.ErrorIs(t, j.Fence(ctx), context.Canceled)
	require.ErrorContains(t, j.Put(context.Background(), "k", nil), "an earlier request (barrier_in) was given up")
	require.NoError(t, j.Abort(1, "still possible"))
	from := bufio.NewReader(launcher)
	line, err := from.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "cmd=abort exitcode=1 message=still_possible\n", line)
	// The reply comes late, before the one to finalize.
	_, err = launcher.WriteString("cmd=barrier_out\ncmd=finalize_ack\n")
	require.NoError(t, err)
	require.NoError(t, j.Finalize(context.Background()))
	line, err = from.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "cmd=finalize\n", line)
	require.ErrorIs(t, j.Finalize(context.Background()), pmi.ErrClosed)
}

// A request that is given up does not cancel a barrier in which the rank is: its late reply is
// dropped.
func TestGivingUpInsideABarrier(t *testing.T) {
	launcher, rank := pair(t)
	go func() {
		r := bufio.NewReader(launcher)
		for _, reply := range opening {
			_, _ = r.ReadString('\n')
			_, _ = launcher.WriteString(reply)
		}
	}()
	j, err := newJob(context.Background(), place{size: 2}, rank)
	require.NoError(t, err)
	require.NoError(t, j.pmi.enter(context.Background()))
	ctx, cancel := context.WithCancel(context.Background())
	from := bufio.NewReader(launcher)
	go func() {
		_, _ = from.ReadString('\n')
		_, _ = from.ReadString('\n') // the request has arrived
		cancel()
	}()
	_, err = j.Get(ctx, 1, "k")
	require.ErrorIs(t, err, context.Canceled)
	_, err = launcher.WriteString("cmd=get_result rc=0 value=late\ncmd=barrier_out rc=0\n")
	require.NoError(t, err)
	require.NoError(t, j.pmi.leaveBarrier(context.Background(), false))
}

func TestWaitingForTheTurnEndsWithTheContext(t *testing.T) {
	j := alone()
	require.NoError(t, j.begin(context.Background(), "test"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, j.Fence(ctx), context.Canceled)
	j.end()
}

func TestWrongArguments(t *testing.T) {
	ctx, j := context.Background(), alone()
	require.ErrorContains(t, j.Put(ctx, "a b", nil), "a b")
	require.ErrorContains(t, j.Put(ctx, "k", make([]byte, MaxValue+1)), "65537 bytes")
	_, err := j.Get(ctx, 1, "k")
	require.ErrorContains(t, err, "no rank 1 in a job of 1")
	_, err = j.Get(ctx, 0, "")
	require.Error(t, err)
	require.NoError(t, j.Abort(3, "no rank to end"))
}

func TestDescriptorIsChecked(t *testing.T) {
	_, err := openPMI(1 << 20)
	require.ErrorIs(t, err, pmi.ErrEnvironment)
	require.ErrorContains(t, err, "PMI_FD=1048576 is not an open descriptor")
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer f.Close()
	_, err = openPMI(int(f.Fd()))
	require.ErrorContains(t, err, "is not a socket (did a wrapper close it")
}

func FuzzClient(f *testing.F) {
	f.Add([]byte(strings.Join(opening, "") + "cmd=barrier_out rc=0\n"))
	f.Add([]byte(strings.Join(opening, "") + "cmd=barrier_out rc=1 lost=MiBkaWVkCg total=1\n"))
	f.Add([]byte(strings.Join(opening, "") + "cmd=barrier_out rc=0\ncmd=get_result rc=-1\ncmd=get_result rc=0 value=1\n" +
		"cmd=banyan_range rc=0 values=0001.AAAA,\n"))
	f.Add([]byte("cmd=barrier_out\ncmd=barrier_out\n")) // unasked, and then nothing
	f.Fuzz(func(t *testing.T, said []byte) {
		launcher, rank := pair(t)
		done := make(chan struct{})
		go func() { // it ends when the rank does: an earlier close would lose data
			defer close(done)
			_, _ = launcher.Write(said)
			raw, err := launcher.SyscallConn()
			if err == nil {
				_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
			}
			_, _ = io.Copy(io.Discard, launcher)
		}()
		ctx := context.Background()
		if j, err := newJob(ctx, place{size: 2}, rank); err == nil {
			_ = j.Fence(ctx)
			_, _ = j.Get(ctx, 1, "k")
			j.id = pmi.IDPrefix
			values, _ := j.GetRange(ctx, 0, 2, "k")
			require.LessOrEqual(t, len(values), 2)
			_ = j.Finalize(ctx)
		}
		rank.Close()
		<-done
	})
}
