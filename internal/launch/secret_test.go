package launch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fileOfEnv and a rank name the file of that rank; "" takes the variable away.
const fileOfEnv = "BANYAN_TEST_SECRET_"

// roleSecret asks for the secret too early, and then in time.
func roleSecret() error {
	ctx := context.Background()
	if own, ok := os.LookupEnv(fileOfEnv + os.Getenv("PMI_RANK")); ok {
		if err := os.Setenv(SecretFileEnv, own); err != nil {
			return err
		}
	}
	j, err := Join(ctx)
	if err != nil {
		return err
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	if j.Rank() > 0 {
		if _, err := j.Secret(ctx); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "rank 0 calls Secret before a Fence") {
			return fmt.Errorf("before rank 0: %v", err)
		}
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	if j.Rank() == 0 {
		if _, err := j.Secret(ctx); err != nil {
			return err
		}
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	secret, err := j.Secret(ctx)
	if err != nil {
		return err
	}
	if err := unseen(j, secret); err != nil {
		return err
	}
	sum := sha256.Sum256(secret)
	fmt.Printf("secret %x\n", sum[:8])
	if err := j.Fence(ctx); err != nil { // rank 0 may be the one that answers
		return err
	}
	return j.Finalize(ctx)
}

// unseen looks for the secret where others could read it.
func unseen(j *Job, secret []byte) error {
	again, err := j.Secret(context.Background())
	if err != nil || !bytes.Equal(again, secret) || len(secret) != SecretLen {
		return fmt.Errorf("%d bytes; a second time %v, %w", len(secret), bytes.Equal(again, secret), err)
	}
	again[0]++ // the caller's own
	if third, _ := j.Secret(context.Background()); !bytes.Equal(third, secret) {
		return errors.New("a caller has changed the job's copy")
	}
	text := fmt.Sprintf("%v %+v %#v", j, j, j)
	for _, name := range []string{"/proc/self/environ", "/proc/self/cmdline"} {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text += string(b)
	}
	for _, form := range []string{
		string(secret), hex.EncodeToString(secret), base64.RawURLEncoding.EncodeToString(secret),
		strings.Trim(fmt.Sprint(secret), "[]"), strings.Trim(fmt.Sprintf("%#v", secret), "[]byte{}"),
	} {
		if strings.Contains(text, form) {
			return errors.New("the secret stands where it can be read")
		}
	}
	return nil
}

// secretFile writes a file as Job.Secret wants it.
func secretFile(t *testing.T, content string) string {
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o400))
	return path
}

const sixteen = "0123456789abcdef"

// oneSecret checks that all ranks have said the same, and returns it.
func oneSecret(t *testing.T, out string, n int) string {
	said := regexp.MustCompile(`secret ([0-9a-f]{16})\n`).FindAllString(out, -1)
	require.Len(t, said, n, out)
	for _, s := range said {
		require.Equal(t, said[0], s)
	}
	return said[0]
}

func TestSecret(t *testing.T) {
	t.Parallel()
	file := secretFile(t, sixteen)
	seen := map[string]bool{}
	for name, own := range map[string][]string{"random": nil, "file": {SecretFileEnv + "=" + file}} {
		for range 2 {
			t.Run("launcher, "+name, func(t *testing.T) {
				s := ranks(t, "secret", 4)
				s.Env = append(s.Env, own...)
				res, out, err := run(t, s)
				require.Zero(t, res.Code, err)
				seen[oneSecret(t, out, 4)] = true
			})
			t.Run("no launcher, "+name, func(t *testing.T) {
				port, out := freePort(t), ""
				var ranks []*single
				for r := range 4 {
					ranks = append(ranks, setOut(t, "secret", port, r, 4, own...))
				}
				for _, s := range ranks {
					out += s.end(0)
				}
				seen[oneSecret(t, out, 4)] = true
			})
		}
	}
	require.Len(t, seen, 8, "each job has its own")
	s := ranks(t, "secret", 1)
	s.Env = append(s.Env, fileOfEnv+"0="+file)
	res, out, err := run(t, s)
	require.Zero(t, res.Code, err)
	oneSecret(t, out, 1)
}

func TestSecretsThatDiffer(t *testing.T) {
	t.Parallel()
	one, other := secretFile(t, sixteen), secretFile(t, sixteen+"\n")
	for _, c := range []struct{ zero, two, want string }{
		{one, other, "has other content than the file of rank 0"},
		{one, "", SecretFileEnv + " is set where rank 0 runs but not here"},
		{"", other, SecretFileEnv + " is set here but not where rank 0 runs"},
		{one, t.TempDir() + "/none", "no such file"},
	} {
		s := ranks(t, "secret", 3)
		s.Env = append(s.Env, SecretFileEnv+"="+c.zero, fileOfEnv+"2="+c.two)
		s.OnFailure = Abort
		res, out, err := run(t, s)
		require.Equal(t, 9, res.Ends[2].Code, err)
		require.Contains(t, err, c.want)
		require.Contains(t, err, ErrEnvironment.Error())
		require.NotContains(t, out+err, sixteen)
	}
}

// A world of one has a secret of its own, and looks at no file.
func TestSecretOfOne(t *testing.T) {
	t.Setenv(SecretFileEnv, "/nowhere")
	a, b := alone(), alone()
	one, err := a.Secret(t.Context())
	require.NoError(t, err)
	two, err := b.Secret(t.Context())
	require.NoError(t, err)
	require.Len(t, one, SecretLen)
	require.NotEqual(t, one, two)
	require.NoError(t, unseen(a, one))
	require.NoError(t, a.Finalize(t.Context()))
	_, err = a.Secret(t.Context())
	require.ErrorIs(t, err, ErrClosed)
}

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, content string, mode fs.FileMode) string {
		require.NoError(t, os.WriteFile(at(name), []byte(content), 0o600))
		require.NoError(t, os.Chmod(at(name), mode)) // whatever the umask
		return at(name)
	}
	write("good", sixteen, 0o400)
	require.NoError(t, os.Symlink("good", at("link")))
	require.NoError(t, unix.Mkfifo(at("fifo"), 0o600))
	socket, err := net.Listen("unix", at("socket"))
	require.NoError(t, err)
	defer socket.Close()
	write("long", strings.Repeat("x", SecretFileMax), 0o440)

	want, err := readSeed(at("good"))
	require.NoError(t, err)
	for _, name := range []string{"good", "link", "long"} {
		got, err := readSeed(at(name))
		require.NoError(t, err)
		require.Equal(t, name != "long", got.derive("x") == want.derive("x"))
		require.NotEqual(t, got.derive("x"), got.derive("y"))
	}
	none, err := readSeed("")
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
		write("read", sixteen, 0o644):                                       "everybody may read it (mode 0644): chmod 0400",
		write("write", sixteen, 0o602):                                      "others than its owner may write it (mode 0602)",
		write("group", sixteen, 0o660):                                      "others than its owner may write it (mode 0660)",
	} {
		_, err := readSeed(path)
		require.ErrorIs(t, err, ErrEnvironment, path)
		require.ErrorContains(t, err, "BANYAN_SECRET_FILE="+path+": ")
		require.ErrorContains(t, err, why)
		require.NotContains(t, err.Error(), sixteen[1:])
	}
}

// What rank 0 publishes is no secret where there is a file, and what a peer
// publishes is checked.
func TestWhatIsPublishedOfASecret(t *testing.T) {
	s, err := readSeed(secretFile(t, sixteen))
	require.NoError(t, err)
	own := s.derive("job k")
	said := append([]byte{fromFile}, check(own)...)
	require.False(t, bytes.Contains(own[:], said[1:]))
	got, err := s.compare(own, said)
	require.NoError(t, err)
	require.Equal(t, own, got)
	random := append([]byte{fromRandom}, own[:]...)
	got, err = (*seed)(nil).compare([SecretLen]byte{}, random)
	require.NoError(t, err)
	require.Equal(t, own, got)
	for _, wrong := range [][]byte{nil, {fromFile}, {fromRandom}, random[:20], append(random, 0), said[:8], append(said, 0), {'x', 1}} {
		_, err := (*seed)(nil).compare([SecretLen]byte{}, wrong)
		require.Error(t, err, "%q", wrong)
		_, err = s.compare(own, wrong)
		require.Error(t, err, "%q", wrong)
	}
}

// A launcher that breaks the protocol in the middle of the secret does not bring
// it into the error.
func TestErrorsQuoteNoValue(t *testing.T) {
	const value = "0001.c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3I"
	for _, line := range []string{
		"cmd=get_result rc=0 value=" + value + "\x01",
		"cmd=put kvsname=k key=b-job-secret-0 value=" + value + " x",
		"get_result value=" + value,
		"cmd=get_result value=" + value + strings.Repeat(" a=b", fieldsMax),
	} {
		_, err := parse(line)
		require.Error(t, err)
		require.NotContains(t, err.Error(), value[:8], line)
	}
	_, err := join(func(int) (string, error) { return value[2:], nil })
	require.ErrorContains(t, err, "number of pieces")
	require.NotContains(t, err.Error(), value[5:10])
	_, err = join(func(int) (string, error) { return value + "!", nil })
	require.Error(t, err)
	require.NotContains(t, err.Error(), value[5:10])
}
