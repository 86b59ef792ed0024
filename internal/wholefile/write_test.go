package wholefile

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// content is the content of a file; no part of a file may be left beside it.
func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	parts, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	require.NoError(t, err)
	require.Empty(t, parts)
	return string(b)
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	return info.Mode()
}

func TestWrite(t *testing.T) {
	defer unix.Umask(unix.Umask(0o027))
	path := filepath.Join(t.TempDir(), "new", "dir", "r.json")
	require.NoError(t, Check(path))
	require.NoFileExists(t, path)
	require.NoError(t, Write(path, []byte("one"), 0))
	require.Equal(t, "one", content(t, path))
	require.Equal(t, os.FileMode(0o640), mode(t, path))

	old, err := os.Open(path)
	require.NoError(t, err)
	defer old.Close()
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, Check(path))
	require.NoError(t, Write(path, []byte("two"), 0))
	require.Equal(t, "two", content(t, path))
	require.Equal(t, os.FileMode(0o600), mode(t, path), "the permissions stay")
	b, err := io.ReadAll(old)
	require.NoError(t, err)
	require.Equal(t, "one", string(b), "a concurrent reader has the whole old file")

	require.NoError(t, Write(path, []byte("three"), 0o644))
	require.Equal(t, os.FileMode(0o644), mode(t, path), "whatever the umask")
}

// A link stays one, also where it leads nowhere yet.
func TestWriteThroughLinks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "far"), 0o777))
	require.NoError(t, os.Symlink(filepath.Join(dir, "far"), filepath.Join(dir, "short")))
	require.NoError(t, os.Symlink("../end", filepath.Join(dir, "far", "second"))) // .. of far, not of short
	first := filepath.Join(dir, "first")
	require.NoError(t, os.Symlink("short/second", first))
	for _, text := range []string{"made", "replaced"} {
		require.NoError(t, Check(first))
		require.NoError(t, Write(first, []byte(text), 0))
		require.Equal(t, text, content(t, filepath.Join(dir, "end")))
		require.Equal(t, os.ModeSymlink, mode(t, first).Type())
		require.Equal(t, os.ModeSymlink, mode(t, filepath.Join(dir, "far", "second")).Type())
	}

	ring := filepath.Join(dir, "ring")
	require.NoError(t, os.Symlink("ring", ring))
	require.ErrorIs(t, Check(ring), unix.ELOOP)
	require.ErrorIs(t, Write(ring, nil, 0), unix.ELOOP)
}

// A FIFO's reader gets the text once, and the FIFO stays.
func TestWriteToFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	require.NoError(t, Check(path), "it does not wait for a reader")
	read := make(chan string)
	go func() {
		b, _ := os.ReadFile(path) // ends when the writer closes
		read <- string(b)
	}()
	require.NoError(t, Write(path, []byte("text"), 0))
	require.Equal(t, "text", <-read)
	require.Equal(t, os.ModeNamedPipe, mode(t, path).Type())
}

func TestWriteToDevices(t *testing.T) {
	null := filepath.Join(t.TempDir(), "null")
	require.NoError(t, os.Symlink("/dev/null", null))
	require.NoError(t, Check(null))
	require.NoError(t, Write(null, []byte("text"), 0))
	require.Equal(t, os.ModeSymlink, mode(t, null).Type())
	require.ErrorIs(t, Write("/dev/full", []byte("text"), 0), unix.ENOSPC)
}

// Text that has been printed into a file stays there when /dev/stdout is that file.
func TestWriteToStandardOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	own := os.Stdout
	os.Stdout = f
	defer func() { os.Stdout = own }()
	_, err = io.WriteString(os.Stdout, "table\n")
	require.NoError(t, err)
	require.NoError(t, Write(path, []byte("{}\n"), 0))
	_, err = io.WriteString(os.Stdout, "end\n")
	require.NoError(t, err)
	require.Equal(t, "table\n{}\nend\n", content(t, path))
}

func TestWriteErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, Write(file, nil, 0))
	for _, path := range []string{dir, filepath.Join(file, "below"), "/proc/none/r.json"} {
		require.Error(t, Check(path), path)
		require.Error(t, Write(path, []byte("x"), 0), path)
	}
	require.Empty(t, content(t, file))
}
