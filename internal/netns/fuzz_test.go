package netns

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A name is taken for ours if a label writes it, and no other.
func FuzzLabel(f *testing.F) {
	f.Add(label{"banyan", 4194304, 1 << 63, 7, "249"}.String())
	f.Add(label{"x", 1, 0, 0, bridgePart}.String())
	f.Add("banyan-1-2-3-+4")
	f.Add("banyan-1-2--3-4")
	f.Fuzz(func(t *testing.T, name string) {
		l, ok := parseLabel(name)
		if !ok {
			return
		}
		require.Equal(t, name, l.String())
		require.Positive(t, l.pid)
		require.GreaterOrEqual(t, l.number, 0)
		require.True(t, prefixWord.MatchString(l.prefix))
		require.NotContains(t, l.part, "/")
	})
}

// reply is a netlink message as the kernel sends it.
func reply(kind uint16, seq uint32, body []byte) []byte {
	b := request(kind, 0, body).b
	native.PutUint32(b, uint32(unix.SizeofNlMsghdr+len(body)))
	native.PutUint32(b[8:], seq)
	return b
}

// Whatever is in two datagrams of answers: reading ends, with an error or with bodies that are part of them.
func FuzzAnswers(f *testing.F) {
	ack := native.AppendUint32(nil, 0)
	why := append(native.AppendUint32(nil, ^uint32(unix.EPERM)+1), make([]byte, unix.SizeofNlMsghdr)...)
	text := (&message{why}).b
	m := &message{text}
	m.putString(unix.NLMSGERR_ATTR_MSG, "no such thing")
	f.Add(reply(unix.RTM_NEWLINK, 1, make([]byte, unix.SizeofIfInfomsg)), reply(unix.NLMSG_DONE, 1, ack))
	f.Add(reply(unix.NLMSG_ERROR, 1, ack), reply(unix.NLMSG_ERROR, 2, m.b))
	socket := reply(unix.SOCK_DIAG_BY_FAMILY, 2, make([]byte, sockIDAt+sockIDSize))
	f.Add(socket, reply(unix.NLMSG_ERROR, 1, native.AppendUint32(nil, 1<<31)))
	f.Add([]byte{}, []byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, one, two []byte) {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(pair[0])
		for _, b := range [][]byte{one, two} {
			require.NoError(t, unix.Sendto(pair[1], b[:min(len(b), 1<<15)], 0, nil))
		}
		require.NoError(t, unix.Close(pair[1]))
		bodies := 0
		err = (&talker{fd: pair[0]}).answers(1, 2, func(body []byte) {
			bodies += len(body)
			runs(body)
			for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
				if remote, id, ok := diagnosed(body, family); ok {
					require.Len(t, id, sockIDSize)
					require.Equal(t, family == unix.AF_INET, remote.Is4())
					require.NotEqual(t, netip.Addr{}, remote)
				}
			}
		})
		require.LessOrEqual(t, bodies, len(one)+len(two))
		if err != nil {
			require.NotEmpty(t, err.Error())
		}
	})
}

// A process's entry in /proc says when it started and whether it is alive, or is an error.
func FuzzBirth(f *testing.F) {
	f.Add("4711 (a b) c) S " + strings.Repeat("1 ", 18) + "99 2 3")
	f.Add("4711 (x) Z " + strings.Repeat("1 ", 19))
	f.Add(")")
	f.Fuzz(func(t *testing.T, text string) {
		start, alive, err := started(text)
		if err != nil {
			require.False(t, alive)
			return
		}
		require.Contains(t, text[strings.LastIndexByte(text, ')')+1:], strconv.FormatUint(start, 10))
	})
}
