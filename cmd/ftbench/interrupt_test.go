package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/bench/peers"
)

// measuring is a command in a process of its own.
type measuring struct {
	*exec.Cmd
	out  *bufio.Reader
	errs bytes.Buffer
}

func measure(t *testing.T, args ...string) *measuring {
	self, err := os.Executable()
	require.NoError(t, err)
	m := &measuring{Cmd: exec.Command(self, args...)}
	m.Stderr = &m.errs
	out, err := m.StdoutPipe()
	require.NoError(t, err)
	m.out = bufio.NewReader(out)
	require.NoError(t, m.Start())
	return m
}

// scratch are the directories of a process that has put them into /dev/shm or the directory for
// temporary files.
func (m *measuring) scratch(t *testing.T) []string {
	var all []string
	for _, dir := range []string{"/dev/shm", os.TempDir()} {
		found, err := filepath.Glob(fmt.Sprintf("%s/banyan-*-*-%d-*-*", dir, m.Process.Pid))
		require.NoError(t, err)
		all = append(all, found...)
	}
	return all
}

// awaitScratch returns when the process has made a directory, and stops it there: else it might be
// past that when it is sent a signal.
func (m *measuring) awaitScratch(t *testing.T) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		for len(m.scratch(t)) == 0 {
			require.NoError(t, unix.Kill(m.Process.Pid, 0))
			<-tick.C
		}
		require.NoError(t, m.Process.Signal(unix.SIGSTOP))
		for unix.Waitid(unix.P_PID, m.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		if len(m.scratch(t)) > 0 {
			return
		}
		require.NoError(t, m.Process.Signal(unix.SIGCONT))
	}
}

// end is the exit code after a signal.
func (m *measuring) end(t *testing.T, s unix.Signal) int {
	require.NoError(t, m.Process.Signal(s))
	require.NoError(t, m.Process.Signal(unix.SIGCONT))
	_, err := io.Copy(io.Discard, m.out)
	require.NoError(t, err)
	_ = m.Wait() // an error is a code, which is looked at
	return m.ProcessState.ExitCode()
}

// A tour that is ended leaves nothing behind, and the next one removes the files of a killed one
// when it starts.
func TestTourIsEnded(t *testing.T) {
	if _, err := peers.CPUs(); err != nil {
		require.ErrorContains(t, err, "two CPUs") // there is no control, and so nothing to leave
		return
	}
	killed := measure(t, "tour", "--dir", t.TempDir())
	killed.awaitScratch(t)
	require.Equal(t, -1, killed.end(t, unix.SIGKILL))
	require.NotEmpty(t, killed.scratch(t))
	// The caller of the test may ignore some, as nohup does: a signal that is caught here is not
	// ignored by the processes started from here.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGHUP, unix.SIGINT)
	defer signal.Stop(caught)
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGINT} {
		m := measure(t, "tour", "--dir", t.TempDir())
		m.awaitScratch(t)
		require.Equal(t, exitSignal+int(s), m.end(t, s), &m.errs)
		require.Equal(t, fmt.Sprintf("ftbench tour: this takes about 45 s\nftbench: ended by a signal: %v\n", s),
			m.errs.String())
		require.Empty(t, m.scratch(t))
	}
	require.Empty(t, killed.scratch(t)) // not at once: its control may have been making a file there
}

// The results of compare are stored, also when it is ended.
func TestCompareIsEnded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.json")
	m := measure(t, "compare", "--only", "aware", "--max-time", "1h", "--sample", "1ms", "--json", file)
	line, err := m.out.ReadString('\n')
	if _, no := peers.CPUs(); no != nil {
		require.ErrorIs(t, err, io.EOF)
		return
	}
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(line, "ranks on CPUs"), line)
	require.Equal(t, exitSignal+int(unix.SIGINT), m.end(t, unix.SIGINT))
	require.Equal(t, "ftbench compare: this takes about 60 min\nftbench: ended by a signal: interrupt\n",
		m.errs.String(), "no job is named")
	require.Empty(t, m.scratch(t))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, json.Valid(b))
}
