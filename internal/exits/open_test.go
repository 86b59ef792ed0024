package exits

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
)

func TestVariable(t *testing.T) {
	for n, want := range map[int][]int{MinFiles: {4, 5, 6}, MaxFiles: {4, 5, 6, 7, 8}} {
		fds, err := parse(Variable(4, n))
		require.NoError(t, err)
		require.Equal(t, want, fds)
	}
	require.True(t, Descriptors("7,9,8"))
	for _, wrong := range []string{"", "4", "4,5", "4,5,6,7,8,9", "4,5,x", "4,5,5", "4,5,6,4", "0,1,2", "4,5,-6", "4,5,99999999", Off, "@x"} {
		require.False(t, Descriptors(wrong), "%q", wrong)
	}
}

func TestNobodyOffers(t *testing.T) {
	for _, value := range []string{Off, On, "@banyan-test-nobody", "/nowhere/at/all"} {
		t.Setenv(Env, value)
		_, err := Open()
		require.ErrorIs(t, err, ErrNone, value)
	}
	t.Setenv(Env, "nonsense")
	_, err := Open()
	require.ErrorContains(t, err, `BANYAN_EXITS="nonsense"`)
	require.NotErrorIs(t, err, ErrNone)
}

// Descriptors that are something else, since a wrapper has closed ours, are left
// alone.
func TestOtherDescriptors(t *testing.T) {
	fds := make([]int, MinFiles)
	for i := range fds {
		var err error
		fds[i], err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
	}
	_, err := inherited(join(fds))
	require.ErrorContains(t, err, "is not a BPF map of type 2")
	require.NoError(t, closeFDs(fds), "they were still open")
	_, err = inherited(join(fds))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func join(fds []int) string {
	text := ""
	for _, fd := range fds {
		text += "," + strconv.Itoa(fd)
	}
	return text[1:]
}

func TestCause(t *testing.T) {
	for status, want := range map[int32]proc.Cause{
		0: {Kind: proc.Exited}, 3 << 8: {Kind: proc.Exited, Code: 3}, 0xff00: {Kind: proc.Exited, Code: 255},
		9: {Kind: proc.Signaled, Code: 9}, 11 | 0x80: {Kind: proc.Signaled, Code: 11}, // with a core dump
		Unknown: {Kind: proc.Unknown},
	} {
		require.Equal(t, want, causeOf(status), "%#x", status)
	}
}
