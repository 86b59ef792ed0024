package exits

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/proc"
)

// book is a log that the test writes as the kernel's programs do.
type book struct{ b []byte }

func (k book) write(pid int, status int32) {
	head := binary.NativeEndian.Uint64(k.b[HeadAt:])
	binary.NativeEndian.PutUint64(k.b[HeadAt:], head+1)
	e := k.b[EntriesAt+int(head%Entries)*EntrySize:]
	binary.NativeEndian.PutUint32(e[PIDAt:], uint32(pid))
	binary.NativeEndian.PutUint32(e[StatusAt:], uint32(status))
	binary.NativeEndian.PutUint64(e[SeqAt:], head+1)
}

// mappingOf is the whole of a log in memory.
func mappingOf(b []byte) mapping {
	m := mapping{bytes: b}
	for i := range m.mapped {
		m.mapped[i] = true
	}
	return m
}

// read gives a table of the log to a process of the loader's namespace.
func (k book) read() *Table {
	return &Table{log: mappingOf(k.b), outer: true}
}

// A reader that comes after more ends than the log has room for has lost some, and reports none of
// them; it reports the entries that the log still has, and takes no unknown process for living or for
// ended.
func TestMoreEndsThanTheLogHasRoomFor(t *testing.T) {
	k := book{make([]byte, LogSize)}
	tab := k.read()
	const early, reused, late, many = 7, 8, 9, 3*Entries + 5
	for _, pid := range []int{early, reused} {
		k.write(pid, Registered)
		require.True(t, tab.Watched(pid))
	}
	k.write(reused, 9)
	_, ended := tab.Ended(reused)
	require.True(t, ended)

	k.write(early, 9)
	k.write(reused, Registered)
	for pid := range many {
		k.write(100_000+pid, Registered)
	}
	k.write(late, Registered)
	require.True(t, tab.Watched(late))
	_, ended = tab.Ended(early)
	require.False(t, ended, "it is lost")
	require.False(t, tab.Watched(reused), "the process that has the pid now is not known")
	require.False(t, tab.Watched(100_000))
	require.True(t, tab.Watched(100_000+many-1))
	k.write(late, 9)
	cause, ended := tab.Ended(late)
	require.True(t, ended)
	require.Equal(t, proc.Cause{Kind: proc.Signaled, Code: 9}, cause)
}

// Only the parts of the log that have been read are mapped, and all entries are in them.
func TestPartsOfTheLog(t *testing.T) {
	k := book{make([]byte, LogSize)}
	for pid := range Entries {
		k.write(pid, Registered)
	}
	fd, err := unix.MemfdCreate("log", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, err = unix.Pwrite(fd, k.b, 0)
	require.NoError(t, err)

	m, err := mapLog(fd)
	require.NoError(t, err)
	mapped := func() (n int) {
		for _, is := range m.mapped {
			if is {
				n++
			}
		}
		return n
	}
	require.EqualValues(t, Entries, m.head())
	e, ok := m.entry(5)
	require.True(t, ok)
	require.EqualValues(t, 5, e.pid)
	require.Equal(t, 1, mapped())
	e, ok = m.entry(Entries - 1)
	require.True(t, ok)
	require.EqualValues(t, Entries-1, e.pid)
	require.Equal(t, 2, mapped())
	for i := range uint64(Entries) {
		e, ok := m.entry(i)
		require.True(t, ok)
		require.EqualValues(t, i, e.pid)
	}
	require.Equal(t, logParts, mapped())
	require.NoError(t, m.unmap())
}

// An entry in a part that cannot be mapped is not there yet.
func TestPartThatCannotBeMapped(t *testing.T) {
	k := book{make([]byte, LogSize)}
	m := mappingOf(k.b)
	k.write(7, Registered)
	tab := &Table{log: m, outer: true}
	tab.log.fd, tab.log.mapped[0] = -1, false
	require.False(t, tab.Watched(7))
	tab.log.mapped[0] = true
	require.True(t, tab.Watched(7))
}
