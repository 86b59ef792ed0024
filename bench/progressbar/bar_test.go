package progressbar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// terminal opens a pseudo-terminal: what is written to the second appears on
// the first.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { slave.Close(); master.Close() })
	return master, slave
}

// until reads from a terminal until it has shown text, and returns all of it.
func until(t *testing.T, master *os.File, text string) string {
	t.Helper()
	var all []byte
	buf := make([]byte, 256)
	for !bytes.Contains(all, []byte(text)) {
		n, err := master.Read(buf)
		require.NoError(t, err, "shown so far: %q", all)
		all = append(all, buf[:n]...)
	}
	return string(all)
}

// stopped is a clock for tests that know what is shown, however long they take.
func stopped() time.Time { return time.Unix(1, 0) }

func isRow(line []byte) bool { return line[0] != '#' }

func TestTerminal(t *testing.T) {
	_, tty := terminal(t)
	t.Setenv("TERM", "xterm")
	require.True(t, Terminal(tty))
	t.Setenv("TERM", "dumb")
	require.False(t, Terminal(tty))
	t.Setenv("TERM", "xterm")
	require.False(t, Terminal(&bytes.Buffer{}))
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	require.False(t, Terminal(w), "a pipe")
}

// Where nobody watches, what is printed goes straight to where it should.
func TestSilent(t *testing.T) {
	var out, errs bytes.Buffer
	b := Start(&errs, "x", 3)
	require.Same(t, &out, b.Over(&out))
	require.Same(t, &out, b.Lines(&out, isRow))
	b.Step(1)
	b.Note("y")
	b.Stop()
	b.Stop()
	require.Zero(t, errs.Len())
}

// The bar is drawn by the clock, steps as rows pass, and is gone for good at the
// end.
func TestDrawn(t *testing.T) {
	master, tty := terminal(t)
	var out bytes.Buffer
	b := begin(tty, "osu bw", 4, 0, time.Millisecond, stopped)
	rows := b.Lines(&out, isRow)
	until(t, master, "osu bw [........................] 0/4, 0 s")
	_, err := io.WriteString(rows, "# Size\n1   2.5\n")
	require.NoError(t, err)
	until(t, master, "osu bw [######..................] 1/4, 0 s")
	b.Step(2)
	b.Note("64 bytes")
	until(t, master, "osu bw [##################......] 3/4, 0 s, 64 bytes")
	b.Stop()
	b.Stop()
	fmt.Fprint(tty, "end")
	shown := until(t, master, "end")
	require.True(t, strings.HasSuffix(shown, erase+"end"), "%q", shown)
	require.Equal(t, "# Size\n1   2.5\n", out.String())
}

// The time shown is what has passed since the start.
func TestSeconds(t *testing.T) {
	_, tty := terminal(t)
	clock := time.Unix(1, 0)
	b := begin(tty, "bar", 0, time.Hour, time.Hour, func() time.Time { return clock })
	defer b.Stop()
	clock = clock.Add(2900 * time.Millisecond)
	require.Equal(t, "bar 0 done, 2 s", b.text())
}

// Results and bar on one terminal: no line has parts of both.
func TestOneTerminal(t *testing.T) {
	master, tty := terminal(t)
	b := begin(tty, "bar", 0, time.Hour, time.Hour, stopped)
	out := b.Over(tty)
	b.mu.Lock()
	b.draw()
	b.mu.Unlock()
	fmt.Fprint(out, "first\n")
	fmt.Fprint(out, "begun")
	b.mu.Lock()
	b.draw() // must not write into the line that is begun
	b.mu.Unlock()
	fmt.Fprint(out, " ended\n")
	b.Stop()
	fmt.Fprint(tty, "over") // in no line before
	require.Equal(t, erase+"bar 0 done, 0 s"+erase+"first\r\n"+erase+"bar 0 done, 0 s"+erase+"begun ended\r\nover", until(t, master, "over"))
}

// A reader that sleeps holds up whoever writes, and not who stops the bar.
func TestStopBesideAWriteThatHangs(t *testing.T) {
	master, tty := terminal(t)
	r, w := io.Pipe()
	b := begin(tty, "bar", 1, 0, time.Millisecond, stopped)
	until(t, master, "bar [")
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(b.Over(w), "row\n")
	}()
	var begun [1]byte
	_, err := io.ReadFull(r, begun[:]) // the write is under way, and hangs
	require.NoError(t, err)
	b.Stop()
	r.Close()
	<-written
	fmt.Fprint(tty, "end")
	shown := until(t, master, "end")
	require.True(t, strings.HasSuffix(shown, erase+"end"), "%q", shown)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestErrorsOfTheWriterPass(t *testing.T) {
	_, tty := terminal(t)
	b := begin(tty, "bar", 1, time.Hour, time.Hour, stopped)
	defer b.Stop()
	_, err := io.WriteString(b.Over(broken{}), "x\n")
	require.EqualError(t, err, "full")
}
