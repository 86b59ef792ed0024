package tcp_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// shortageVariable makes a copy of the test binary a process without descriptors; its value is the
// time of its attempts.
const shortageVariable = "BANYAN_TCP_STARVED"

func shortageConfig(id proc.ID, heal time.Duration) tcp.Config {
	return tcp.Config{
		Self: id, MaxProcs: 2, Heal: heal, Secret: []byte("sixteen bytes or more"),
		Inet: true, Networks: []string{"127.0.0.0/8"},
	}
}

// runWithShortage is that process: it uses up its descriptors, prints its address, and then all
// events. A line returns the descriptors; the end of its input ends it.
func runWithShortage() error {
	heal, err := time.ParseDuration(os.Getenv(shortageVariable))
	if err != nil {
		return err
	}
	cfg := shortageConfig(1, heal)
	cfg.Log = slog.New(slog.NewTextHandler(os.Stdout, nil))
	p, err := tcp.Open(cfg)
	if err != nil {
		return err
	}
	lines := make(chan bool)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- true
		}
		os.Exit(0)
	}()
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}, nil); err != nil {
		return err
	}
	var held []int
	for err == nil {
		var fd int
		if fd, err = unix.Open("/dev/null", unix.O_CLOEXEC, 0); err == nil {
			held = append(held, fd)
		}
	}
	if err != unix.EMFILE {
		return err
	}
	fmt.Println("address", hex.EncodeToString(p.Address()))
	var sink fabric.Sink
	sink.Deliver[fabric.ClassTest] = func(_ proc.ID, _ uint64, payload []byte) { fmt.Printf("frame %s\n", payload) }
	sink.Down = func(_ proc.ID, cause proc.Cause) { fmt.Println("down", cause) }
	for {
		if p.Poll(&sink) == 0 {
			_, _ = unix.Poll(nil, 1)
		}
		select {
		case <-lines:
			for _, fd := range held {
				_ = unix.Close(fd)
			}
		default:
		}
	}
}

// driver is the test's side of that process, and its peer.
type driver struct {
	*testing.T
	*tcp.Provider
	said chan string
	sink fabric.Sink
	ends []proc.Cause
	give func() // its descriptors back
}

// newDriver starts a process that tries for so long to get descriptors, for a peer with the
// patience of mine.
func newDriver(t *testing.T, its, mine time.Duration) (*driver, fabric.Conn) {
	d := &driver{T: t, said: make(chan string, 100)}
	d.sink.Down = func(_ proc.ID, cause proc.Cause) { d.ends = append(d.ends, cause) }
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env, cmd.Stderr = append(os.Environ(), fmt.Sprint(shortageVariable, "=", its)), os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	go func() {
		for words := bufio.NewScanner(out); words.Scan(); {
			d.said <- words.Text()
		}
		close(d.said)
	}()
	t.Cleanup(func() { require.NoError(t, in.Close()); require.NoError(t, cmd.Wait()) })
	d.give = func() { _, err := fmt.Fprintln(in); require.NoError(t, err) }
	d.Provider, err = tcp.Open(shortageConfig(0, mine))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	blob, err := hex.DecodeString(strings.TrimPrefix(d.hear("address "), "address "))
	require.NoError(t, err)
	c, err := d.Connect(fabric.ConnectSpec{Peer: 1, Address: blob})
	require.NoError(t, err)
	d.hear("cannot take a connection")
	return d, c
}

// hear polls until the process prints a line with that prefix.
func (d *driver) hear(words string) (line string) {
	d.Helper()
	for start := time.Now(); ; {
		select {
		case line, open := <-d.said:
			require.True(d, open, "it has ended")
			if strings.Contains(line, words) {
				return line
			}
		default:
		}
		if d.Poll(&d.sink) == 0 {
			_, _ = unix.Poll(nil, 1)
		}
		require.Less(d, time.Since(start), time.Minute, "it does not say %q; ends here: %v", words, d.ends)
	}
}

// Both sides report a process without a descriptor for the connection, whichever has more patience,
// and name the shortage; neither waits forever.
func TestDescriptorShortage(t *testing.T) {
	for _, patience := range [][2]time.Duration{{time.Second, time.Minute}, {time.Minute, time.Second}} {
		d, _ := newDriver(t, patience[0], patience[1])
		for start := time.Now(); len(d.ends) == 0; {
			d.Poll(&d.sink)
			require.Less(t, time.Since(start), time.Minute)
		}
		want := proc.Cause{Kind: proc.Unreachable, Code: int32(unix.EMFILE)}
		require.Equal(t, []proc.Cause{want}, d.ends)
		require.Contains(t, want.String(), "ulimit -n")
		if patience[0] < patience[1] {
			d.hear("down " + want.String())
		}
	}
}

// A process that gets descriptors in time is connected, and no end is reported.
func TestTemporaryDescriptorShortage(t *testing.T) {
	d, c := newDriver(t, time.Minute, time.Minute)
	for c.(*tcp.Conn).LastError() == nil { // until it has reported the shortage
		d.Poll(&d.sink)
	}
	require.ErrorIs(t, c.(*tcp.Conn).LastError(), unix.EMFILE)
	d.give()
	for !c.TrySend(fabric.ClassTest, 0, []byte("at last")) {
		d.Poll(&d.sink)
	}
	d.hear("frame at last")
	require.Empty(t, d.ends)
}
