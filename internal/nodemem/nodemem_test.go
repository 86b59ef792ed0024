package nodemem

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Memory of a launcher is found, at the rank's place, and nothing else is.
func TestFind(t *testing.T) {
	const ranks, size = 3, 5
	t.Setenv(Env, "")
	_, err := Find(size)
	require.ErrorIs(t, err, ErrNone)
	f, err := Make(ranks, size)
	require.NoError(t, err)
	defer f.Close()
	set := func(fd, index int) {
		v := Variable(fd, index)
		t.Setenv(Env, v[len(Env)+1:])
	}
	for i := range ranks {
		set(int(f.Fd()), i)
		p, err := Find(size)
		require.NoError(t, err)
		require.Equal(t, Place{int(f.Fd()), int64(i) * page, (ranks+int64(i)/2*size)*page + int64(i)%2*page/2, ranks * (1 + size) * page}, p)
	}
	set(int(f.Fd()), ranks)
	_, err = Find(size)
	require.ErrorContains(t, err, "the file has")
	set(int(f.Fd()), 0)
	_, err = Find(100)
	require.ErrorContains(t, err, "the file has")

	other, err := os.CreateTemp(t.TempDir(), Name)
	require.NoError(t, err)
	defer other.Close()
	set(int(other.Fd()), 0)
	_, err = Find(size)
	require.ErrorContains(t, err, "another file")
	fd, err := unix.MemfdCreate(Name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Ftruncate(fd, span(size)))
	set(fd, 0)
	_, err = Find(size)
	require.ErrorContains(t, err, "not sealed")
	_, err = Make(1<<19, 1<<19)
	require.Error(t, err)
}

// Any value of the variable is a descriptor above the standard ones and a valid place, or an error.
func FuzzPlace(f *testing.F) {
	f.Add("3,0", 1)
	f.Add("4,99999999", 1000)
	f.Add("1,-2", 3)
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = 1 + int(uint(size)%(1<<24))
		fd, index, err := parse(text, size)
		if err != nil {
			return
		}
		require.Greater(t, fd, 2)
		most := mostBytes / span(size)
		require.Less(t, index, int64(most))
		p := At(fd, index, most*span(size), size)
		require.Zero(t, p.Head%page)
		require.Zero(t, p.Pages%page)
		require.LessOrEqual(t, p.Head+Head(size), most*Head(size))
		require.GreaterOrEqual(t, p.Pages, most*Head(size))
		require.LessOrEqual(t, p.Pages+Pages(size), p.Bytes)
	})
}
