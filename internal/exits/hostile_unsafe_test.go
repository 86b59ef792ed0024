package exits

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// logOf lays a log out of words, as 64-bit aligned as a mapping is.
func logOf(t *testing.T) mapping {
	words := make([]uint64, LogSize/8)
	t.Cleanup(func() { words[0]++ }) // it lives as long as the test
	return mappingOf(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), LogSize))
}

// With any contents of an inherited log, reading it ends, stays within it, and reports for a
// process a valid way to end, or nothing.
func FuzzLog(f *testing.F) {
	entries := func(all ...[]uint32) (b []byte) { // seq, pid, status
		for _, e := range all {
			b = binary.LittleEndian.AppendUint32(b, e[0])
			b = binary.LittleEndian.AppendUint32(b, e[1])
			b = binary.LittleEndian.AppendUint32(b, e[2])
		}
		return b
	}
	started, unknown := uint32(0xfffffffe), uint32(0xffffffff)
	f.Add(uint64(2), uint64(3), true, entries([]uint32{1, 7, started}, []uint32{2, 7, 9}, []uint32{3, 7, unknown}))
	f.Add(uint64(1), ^uint64(0), false, entries([]uint32{1, 7, 0x7f}, []uint32{0, 7, 0xffff}))
	f.Add(uint64(Entries+5), uint64(0), true, entries([]uint32{5, 7, 5}))
	f.Fuzz(func(t *testing.T, head, later uint64, outer bool, b []byte) {
		log := logOf(t)
		for i := 0; len(b) >= 12; i, b = i+1, b[12:] {
			at := EntriesAt + i%Entries*EntrySize
			le := binary.LittleEndian
			le.PutUint64(log.bytes[at+SeqAt:], uint64(le.Uint32(b)))
			for _, pid := range []int{PIDAt, InnerAt} {
				le.PutUint32(log.bytes[at+pid:], le.Uint32(b[4:])%16)
			}
			le.PutUint32(log.bytes[at+EntrySpace:], le.Uint32(b[4:])>>31)
			le.PutUint32(log.bytes[at+StatusAt:], le.Uint32(b[8:]))
		}
		tab := &Table{log: log, outer: outer, space: 1}
		for _, n := range []uint64{head, later, head} { // it may even go back
			binary.LittleEndian.PutUint64(log.bytes[HeadAt:], n)
			for pid := -1; pid < 17; pid++ {
				cause, ended := tab.Ended(pid)
				if !ended {
					require.Zero(t, cause)
					continue
				}
				require.False(t, tab.Watched(pid))
				require.Contains(t, []proc.Kind{proc.Unknown, proc.Signaled, proc.Exited}, cause.Kind)
			}
		}
	})
}

// An empty packet is an answer, not the end: the client does not wait for another one, and the descriptors
// that come with it are closed.
func TestEmptyAnswer(t *testing.T) {
	for _, n := range []uint8{0, 1, MinFiles} {
		require.ErrorIs(t, answered(t, nil, n), io.ErrUnexpectedEOF, "%d descriptors", n)
	}
}

// Any answer of an agent, with any number of descriptors, is a table's worth of them or an error
// that can be printed, and nothing stays open.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(Welcome), uint8(MinFiles))
	f.Add([]byte(Welcome), uint8(0))
	f.Add([]byte("the agent serves 64 users\xff"), uint8(MaxFiles+1))
	f.Add([]byte(nil), uint8(1))
	f.Add([]byte(Welcome), uint8(2*MaxFiles-1))
	f.Fuzz(func(t *testing.T, text []byte, n uint8) {
		_ = answered(t, text, n)
	})
}

// answered is the outcome of an agent's answer with n descriptors.
func answered(t *testing.T, text []byte, n uint8) (outcome error) {
	n %= 2 * MaxFiles
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(pair[1])
	file := os.NewFile(uintptr(pair[0]), "client")
	c, err := net.FileConn(file)
	require.NoError(t, errors.Join(err, file.Close()))
	defer c.Close()
	var pipe [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	defer unix.Close(pipe[0])
	fds := make([]int, n)
	for i := range fds {
		fds[i] = pipe[1]
	}
	var oob []byte
	if n > 0 {
		oob = unix.UnixRights(fds...)
	}
	text = text[:min(len(text), 2*TextMax)]
	packet := append(text[:len(text):len(text)], 0)
	part := unix.Iovec{Base: &packet[0]}
	part.SetLen(len(text))
	message := unix.Msghdr{Iov: &part, Iovlen: 1, Control: unsafe.SliceData(oob)}
	message.SetControllen(len(oob))
	// unix.Sendmsg sends a byte with descriptors where it is given none.
	_, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(pair[1]), uintptr(unsafe.Pointer(&message)), 0)
	require.Zero(t, errno)
	got, outcome := ask(c.(*net.UnixConn))
	switch {
	case outcome == nil:
		require.Equal(t, Welcome, string(text))
		require.LessOrEqual(t, len(got), MaxFiles)
		require.NoError(t, closeFDs(got))
	default:
		require.NotErrorIs(t, outcome, os.ErrDeadlineExceeded, "it has waited for more")
		require.Empty(t, got)
		require.True(t, utf8.ValidString(outcome.Error()))
	}
	// The reader sees the end of the pipe when the other side is closed everywhere.
	require.NoError(t, unix.Close(pipe[1]))
	_, err = unix.Read(pipe[0], make([]byte, 1))
	require.NoError(t, err, "a descriptor stays open")
	return outcome
}

func FuzzVariable(f *testing.F) {
	f.Add("4,5,6")
	f.Add("4,5,6,7")
	f.Add("4,,5,6")
	f.Fuzz(func(t *testing.T, text string) {
		fds, err := parse(text)
		require.Equal(t, err == nil, Descriptors(text))
		if err != nil {
			return
		}
		require.True(t, len(fds) >= MinFiles && len(fds) <= MaxFiles)
		for _, fd := range fds {
			require.Greater(t, fd, 2)
		}
	})
}

// The kernel's description of a descriptor makes it a map of one type, a link, or neither.
func FuzzKind(f *testing.F) {
	f.Add("pos:\t0\nmap_type:\t27\nkey_size:\t0\n")
	f.Add("link_type:\ttracing\nmap_type:\t2 \n")
	f.Fuzz(func(t *testing.T, info string) {
		kinds := 0
		for _, kind := range []string{arrayType, ringType, ""} {
			if hasKind(strings.NewReader(info), 3, kind) == nil {
				kinds++
				require.Contains(t, info, map[bool]string{true: "link_type:\t", false: "map_type:\t" + kind}[kind == ""])
			}
		}
		require.LessOrEqual(t, kinds, strings.Count(info, "\n")+1)
	})
}
