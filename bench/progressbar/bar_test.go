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

// terminal opens a pseudo-terminal: data written to the second appear on the first.
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

// Without a terminal the output passes straight through.
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

// The bar is drawn by the clock, steps as rows pass, and is gone for good at the end.
func TestDrawn(t *testing.T) {
	master, tty := terminal(t)
	var out bytes.Buffer
	b := start(tty, "osu bw", 4, 0, time.Millisecond)
	rows := b.Lines(&out, isRow)
	until(t, master, "osu bw   0% [........................] (0/4) [0s:0s]")
	_, err := io.WriteString(rows, "# Size\n1   2.5\n")
	require.NoError(t, err)
	until(t, master, "osu bw  25% [######..................] (1/4)")
	b.Step(2)
	b.Note("64 bytes")
	until(t, master, "osu bw, 64 bytes  75% [##################......] (3/4)")
	b.Stop()
	b.Stop()
	fmt.Fprint(tty, "end")
	shown := until(t, master, "end")
	require.True(t, strings.HasSuffix(shown, erase+"end"), "%q", shown)
	require.Equal(t, "# Size\n1   2.5\n", out.String())
}

// A line that wraps could not be erased: the bar is shorter than the terminal's line.
func TestShorterThanTheLine(t *testing.T) {
	master, tty := terminal(t)
	wide := func(columns uint16) {
		require.NoError(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	}
	wide(60)
	b := start(tty, "compare", 4, time.Hour, time.Hour)
	defer b.Stop()
	b.Note("bw: round 3, 12 µs each, OpenMPI near 0.612 ± 1.2 %, NPmpich2 far 0.731 ± 2.4 %")
	require.Equal(t, 60, b.Over(tty).(interface{ Columns() int }).Columns())
	draw := func() string {
		b.mu.Lock()
		b.draw()
		b.mu.Unlock()
		fmt.Fprint(tty, "\n")
		shown := strings.TrimSuffix(until(t, master, "\n"), "\r\n")
		return strings.TrimPrefix(shown, erase)
	}
	shown := draw()
	require.Len(t, []rune(shown), 59)
	require.Regexp(t, `^compare, bw:…   0% \[\.{24}\] \(0/4\) \[0s:0s\]$`, shown)
	wide(40)
	shown = draw()
	require.Len(t, []rune(shown), 39, shown)
	wide(200)
	require.Contains(t, draw(), "far 0.731 ± 2.4 %   0% [")
}

// Results and bar on one terminal: no line has parts of both.
func TestOneTerminal(t *testing.T) {
	const erased = "\r\x1b\\[K"
	const bar = erased + "[|/] bar \\(0/-\\) \\[0s\\]"
	master, tty := terminal(t)
	b := start(tty, "bar", 0, time.Hour, time.Hour)
	out := b.Over(tty)
	b.mu.Lock()
	b.draw()
	b.mu.Unlock()
	fmt.Fprint(out, "first\n")
	fmt.Fprint(out, "started")
	b.mu.Lock()
	b.draw() // must not write into the line that is started
	b.mu.Unlock()
	fmt.Fprint(out, " ended\n")
	b.Stop()
	fmt.Fprint(tty, "over") // in no line before
	shown := until(t, master, "over")
	require.Regexp(t, "^"+bar+erased+"first\r\n"+bar+erased+"started ended\r\nover$", shown)
}

// A reader that sleeps holds up the writer, and not a goroutine that stops the bar.
func TestStopBesideAWriteThatHangs(t *testing.T) {
	master, tty := terminal(t)
	r, w := io.Pipe()
	b := start(tty, "bar", 1, 0, time.Millisecond)
	until(t, master, "bar   0% [")
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(b.Over(w), "row\n")
	}()
	var started [1]byte
	_, err := io.ReadFull(r, started[:]) // the write is under way, and hangs
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
	b := start(tty, "bar", 1, time.Hour, time.Hour)
	defer b.Stop()
	_, err := io.WriteString(b.Over(broken{}), "x\n")
	require.EqualError(t, err, "full")
}
