package hosts

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Any list of hosts gives hosts that a remote shell takes for hosts, each once, and the same from a
// file with an entry a line.
func FuzzHosts(f *testing.F) {
	f.Add("a:4,b:4,[fd00::7]:2,user@c")
	f.Add("a slots=4,a:2,b # last")
	f.Add("-oProxyCommand=x,a:0,[a,a]:1,a:4194305")
	f.Fuzz(func(t *testing.T, list string) {
		hosts, err := Parse(list)
		named := map[string]bool{}
		for _, h := range hosts {
			require.NoError(t, checkHostName(h.Name))
			require.False(t, named[h.Name])
			named[h.Name] = true
			require.Positive(t, h.Slots)
		}
		again, ferr := ReadFile(strings.NewReader(strings.ReplaceAll(list, ",", "\n")), "f")
		if err == nil && ferr == nil && !strings.ContainsAny(list, "#\n\r") {
			require.Equal(t, hosts, again)
		}
		if ferr == nil {
			require.NotEmpty(t, again)
		}
	})
}

// A remote shell's command line gives words that are part of it, and starts nothing where the
// host's name would be no word.
func FuzzShell(f *testing.F) {
	f.Add(`ssh -o "ProxyCommand=nc %h 1" {host}`)
	f.Add(`a\ b '{host}'.c '' "\""`)
	f.Add(`'`)
	f.Fuzz(func(t *testing.T, line string) {
		words, err := splitWords(line)
		total := 0
		for _, w := range words {
			total += len(w)
		}
		shell, serr := ParseShell(line)
		require.Equal(t, err != nil || len(words) == 0, serr != nil)
		if serr != nil {
			return
		}
		require.LessOrEqual(t, total, 3*len(line), "of invalid UTF-8 each byte is three")
		require.ErrorContains(t, shell("n1", &exec.Cmd{Args: []string{"a b"}}), "cannot be passed")
	})
}

// Any request of a launcher to a proxy is a valid part of a job, which is the same when it is
// written and read again.
func FuzzJob(f *testing.F) {
	job := jobText{Job: "j", N: 4, First: 2, Count: 2, Argv: toBytes([]string{"a", "b"}), Env: toBytes([]string{"X=1"})}
	text, err := json.Marshal(job)
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"N":4611686018427387904,"First":-1,"Count":1,"Argv":["YQ=="]}`))
	f.Add([]byte(`{"N":1,"Count":1,"Argv":[null]} {}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		job, err := decodeJob(payload)
		if err != nil {
			return
		}
		require.True(t, 0 <= job.First && 0 < job.Count && job.First+job.Count <= job.N && job.N <= proc.MaxIDs)
		text, err := json.Marshal(job)
		require.NoError(t, err)
		again, err := decodeJob(text)
		require.NoError(t, err)
		next, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, text, next)
	})
}

// With any frames of a proxy about two ranks, each ends at most once and with its process id, and
// the launcher continues until the proxy is done, or has an error.
func FuzzProxy(f *testing.F) {
	said := func(kind frameKind, rank int, v any) []byte {
		payload, err := json.Marshal(v)
		require.NoError(f, err)
		return frame{kind: kind, rank: rank, payload: payload}.append(nil)
	}
	done := frame{kind: frameDone}.append(nil)
	started := said(frameStarted, 0, startedText{PIDs: []int{7, 8}})
	ended := said(frameEnded, 3, endedText{PID: 8, Signal: unix.SIGKILL, After: time.Second})
	f.Add(bytes.Join([][]byte{started, ended, done}, nil))
	f.Add(bytes.Join([][]byte{ended, ended}, nil))
	f.Add(bytes.Join([][]byte{started, started}, nil))
	f.Add(said(frameStarted, 0, startedText{PIDs: []int{7, -8}}))
	f.Add(frame{kind: frameRefused, payload: []byte("no")}.append(nil))
	f.Fuzz(func(t *testing.T, wire []byte) {
		l := newLink(bufio.NewReader(bytes.NewReader(wire)), io.Discard)
		answers := make(chan Answer, len(wire)+1)
		h := &Remote{Share: Share{first: 2, Count: 2}, shell: &shellProcess{timer: time.NewTimer(time.Hour)}, link: l, job: &Config{Answers: answers}}
		for i := range h.Count {
			h.Ranks = append(h.Ranks, &Rank{Rank: spawn.Rank{Number: h.first + i, Exited: make(chan struct{})}})
		}
		err := h.serve()
		require.Equal(t, err == nil, h.done)
		var refused refusalError
		known := errors.Is(err, errFrame) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &refused)
		require.True(t, err == nil || known, "%v", err)
		for _, r := range h.Ranks {
			over := false
			select {
			case <-r.Exited:
				over = true
			default:
			}
			require.Equal(t, r.end.PID > 0, over)
			require.GreaterOrEqual(t, r.pid, 0)
		}
	})
}

// The variables that ranks on a host get from a launcher are part of its own.
func FuzzForwarded(f *testing.F) {
	f.Add("A=1\nBANYAN_X=7\nGOGC=1\nBANYAN_NODE=n\nHOME", "A\nB=2")
	f.Fuzz(func(t *testing.T, environ, export string) {
		env := strings.Split(environ, "\n")
		require.Subset(t, env, forwarded(env, strings.Split(export, "\n"), Host{}))
	})
}

// With any output of a remote shell, the kept text is one line that a terminal shows, and bounded.
func FuzzWords(f *testing.F) {
	f.Add([]byte("ssh: connect to host n1 port 22:\tNo route\r\n\x1b[2J\xff"))
	f.Add(bytes.Repeat([]byte("\n"), 2*wordsMax))
	f.Fuzz(func(t *testing.T, printed []byte) {
		var said words
		require.True(t, said.add(printed))
		words := said.line()
		require.LessOrEqual(t, len(words), 3*wordsMax)
		require.Negative(t, strings.IndexFunc(words, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", words)
	})
}
