package peers

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// With the program, it runs, and its messages are TCP segments; without it the error names the
// cure.
func TestNPtcp(t *testing.T) {
	cpus, err := CPUs()
	if err != nil {
		cpus = [2]int{}
	}
	n, err := NewNPtcp(cpus)
	if lacks("taskset", "NPtcp") {
		require.ErrorContains(t, err, "apt-get install")
		return
	}
	require.NoError(t, err)
	out := t.TempDir() + "/np.out"
	before, err := SegmentsSent()
	require.NoError(t, err)
	require.NoError(t, n.Run(t.Context(), time.Minute, "-l", "8", "-u", "8", "-p", "0", "-n", "50", "-o", out))
	after, err := SegmentsSent()
	require.NoError(t, err)
	require.GreaterOrEqual(t, after-before, int64(3*2*50), "three trials of 50 round trips")
	rows, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(rows)), 3, "bytes, Mbps, seconds of one size: %q", rows)

	err = n.Run(t.Context(), time.Minute, "-o", "/no/such/directory/np.out")
	require.ErrorContains(t, err, "/no/such/directory")
	require.ErrorContains(t, n.Run(t.Context(), time.Minute, "-?"), "NETPIPE USAGE", "what it says is in the error")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, n.Run(cancelled, time.Minute, "-l", "8", "-u", "8", "-n", "5", "-o", out), context.Canceled)
}

func TestNPtcpNotInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := NewNPtcp([2]int{})
	require.EqualError(t, err, "peers: NPtcp is not installed (no taskset in PATH): apt-get install util-linux, or "+
		"make peers")
	fake := t.TempDir()
	require.NoError(t, os.WriteFile(fake+"/taskset", []byte("#!/bin/sh\n"), 0o700))
	t.Setenv("PATH", fake)
	_, err = NewNPtcp([2]int{})
	require.EqualError(t, err, "peers: NPtcp is not installed (no NPtcp in PATH): apt-get install netpipe-tcp, or "+
		"make peers")
}

// The message of a receiver that fails is in the error; the transmitter is not started then.
func TestNPtcpThatFails(t *testing.T) {
	fake := t.TempDir()
	require.NoError(t, os.WriteFile(fake+"/tool", []byte("#!/bin/sh\necho no sockets today; exit 4\n"), 0o700))
	n := &NPtcp{program: "NPtcp", pin: fake + "/tool"}
	require.ErrorContains(t, n.Run(t.Context(), time.Minute), "exit status 4; its last words: no sockets today")
}

// Only a program that uses SO_REUSEADDR, as Go's listeners do, gets a reserved port; then it is
// seen to listen.
func TestReservedPort(t *testing.T) {
	port, release, err := reservePort()
	require.NoError(t, err)
	defer release()
	other, releaseOther, err := reservePort()
	require.NoError(t, err)
	defer releaseOther()
	require.NotEqual(t, port, other)

	l, err := net.Listen("tcp4", "0.0.0.0:"+strconv.Itoa(port))
	require.NoError(t, err)
	defer l.Close()
	require.NoError(t, awaitListener(t.Context(), port, nil))

	ended := make(chan struct{})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, awaitListener(cancelled, other, ended), context.Canceled)
	close(ended)
	require.ErrorContains(t, awaitListener(t.Context(), other, ended), "ended before it listened")
}

// The tables are of a Linux 6.18 with an NPtcp running on port 23456.
func TestParseTables(t *testing.T) {
	tcp, err := os.ReadFile("testdata/proc-net-tcp.txt")
	require.NoError(t, err)
	for port, want := range map[int]bool{23456: true, 48668: false, 0x5BA: false, 80: false} {
		require.Equal(t, want, listens(string(tcp), port), port)
	}
	snmp, err := os.ReadFile("testdata/proc-net-snmp.txt")
	require.NoError(t, err)
	got, err := parseSegments(string(snmp))
	require.NoError(t, err)
	require.Equal(t, int64(10374659), got)
	for _, bad := range []string{"", "Tcp: OutSegs\n", "Tcp: OutSegs\nTcp: x\n", "Tcp: InSegs\nTcp: 5\n",
		"Udp: OutSegs\nUdp: 5\n", "Tcp: A OutSegs\nTcp: 5\n"} {
		_, err := parseSegments(bad)
		require.Error(t, err, "%q", bad)
	}
}
