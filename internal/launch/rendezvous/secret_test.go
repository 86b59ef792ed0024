package rendezvous

import (
	"bytes"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, content string, mode fs.FileMode) string {
		require.NoError(t, os.WriteFile(at(name), []byte(content), 0o600))
		require.NoError(t, os.Chmod(at(name), mode)) // with any umask
		return at(name)
	}
	write("good", sixteen, 0o400)
	require.NoError(t, os.Symlink("good", at("link")))
	require.NoError(t, unix.Mkfifo(at("fifo"), 0o600))
	socket, err := net.Listen("unix", at("socket"))
	require.NoError(t, err)
	defer socket.Close()
	write("long", strings.Repeat("x", SecretFileMax), 0o440)

	want, err := ReadSecret(at("good"))
	require.NoError(t, err)
	for _, name := range []string{"good", "link", "long"} {
		got, err := ReadSecret(at(name))
		require.NoError(t, err)
		require.Equal(t, name != "long", got.derive("x") == want.derive("x"))
		require.NotEqual(t, got.derive("x"), got.derive("y"))
	}
	none, err := ReadSecret("")
	require.NoError(t, err)
	require.Nil(t, none)
	for path, why := range map[string]string{
		at("none"):                         "no such file",
		dir:                                "is no regular file but d",
		at("fifo"):                         "is no regular file but p",
		at("socket"):                       "no such device",
		"/dev/zero":                        "is no regular file but Dc",
		write("short", sixteen[1:], 0o600): "has 15 bytes, at least 16 are needed",
		write("empty", "", 0o600):          "has 0 bytes",
		write("longer", strings.Repeat(sixteen, 1+SecretFileMax/16), 0o600): "has more than 4096 bytes",
		write("read", sixteen, 0o644):                                       "every user may read it (mode 0644): chmod 0400",
		write("write", sixteen, 0o602):                                      "others than its owner may write it (mode 0602)",
		write("group", sixteen, 0o660):                                      "others than its owner may write it (mode 0660)",
	} {
		_, err := ReadSecret(path)
		require.ErrorIs(t, err, pmi.ErrEnvironment, path)
		require.ErrorContains(t, err, "BANYAN_SECRET_FILE="+path+": ")
		require.ErrorContains(t, err, why)
		require.NotContains(t, err.Error(), sixteen[1:])
	}
}

// The value that rank 0 publishes is no secret if there is a file, and a value that a peer
// publishes is checked.
func TestWhatIsPublishedOfASecret(t *testing.T) {
	s, err := ReadSecret(secretFile(t, sixteen))
	require.NoError(t, err)
	own := s.derive("job k")
	said := append([]byte{fromFile}, check(own)...)
	require.False(t, bytes.Contains(own[:], said[1:]))
	got, err := s.Compare("job k", said)
	require.NoError(t, err)
	require.Equal(t, own, got)
	random := append([]byte{fromRandom}, own[:]...)
	got, err = (*Secret)(nil).Compare("job k", random)
	require.NoError(t, err)
	require.Equal(t, own, got)
	for _, wrong := range [][]byte{nil, {fromFile}, {fromRandom}, random[:20], append(random, 0), said[:8], append(said, 0), {'x', 1}} {
		_, err := (*Secret)(nil).Compare("job k", wrong)
		require.Error(t, err, "%q", wrong)
		_, err = s.Compare("job k", wrong)
		require.Error(t, err, "%q", wrong)
	}
}

// secretFile writes a file as Job.Secret wants it.
func secretFile(t *testing.T, content string) string {
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o400))
	return path
}

const sixteen = "0123456789abcdef"

// Any published value of rank 0 gives the job's secret, or an error; from a file only its check
// value is accepted.
func FuzzSecret(f *testing.F) {
	s := &Secret{path: "f", prk: make([]byte, 32)}
	own := s.derive("job")
	f.Add(append([]byte{fromFile}, check(own)...), true)
	f.Add(append([]byte{fromRandom}, own[:]...), false)
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, said []byte, file bool) {
		from := s
		if !file {
			from = nil
		}
		secret, err := from.Compare("job", said)
		switch {
		case err != nil:
			require.Equal(t, file, own == secret)
		case file:
			require.Equal(t, own, secret)
			require.Equal(t, append([]byte{fromFile}, check(own)...), said)
		default:
			require.Equal(t, append([]byte{fromRandom}, secret[:]...), said)
		}
	})
}
