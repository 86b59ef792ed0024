package launch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/rendezvous"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"github.com/stretchr/testify/require"
)

// fileOfEnv and a rank name the file of that rank; "" takes the variable away.
const fileOfEnv = "BANYAN_TEST_SECRET_"

// roleSecret asks for the secret too early, and then in time.
func roleSecret() error {
	ctx := context.Background()
	if own, ok := os.LookupEnv(fileOfEnv + os.Getenv("PMI_RANK")); ok {
		if err := os.Setenv(rendezvous.SecretFileEnv, own); err != nil {
			return err
		}
	}
	j, err := join.Join(ctx)
	if err != nil {
		return err
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	if j.Rank() > 0 {
		if _, err := j.Secret(ctx); !errors.Is(err, pmi.ErrNotFound) || !strings.Contains(err.Error(), "rank 0 calls Secret before a Fence") {
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

// oneSecret checks that all ranks have printed the same, and returns it.
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
	file := fileOf(t, sixteenBytes)
	seen := map[string]bool{}
	for name, own := range map[string][]string{"random": nil, "file": {rendezvous.SecretFileEnv + "=" + file}} {
		for range 2 {
			t.Run("launcher, "+name, func(t *testing.T) {
				s := ranks(t, "secret", 4)
				s.Env = append(s.Env, own...)
				res, out, err := run(t, s)
				require.Zero(t, res.Code, err)
				seen[oneSecret(t, out, 4)] = true
			})
			t.Run("no launcher, "+name, func(t *testing.T) {
				port, out := somePort(t), ""
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
	one, other := fileOf(t, sixteenBytes), fileOf(t, sixteenBytes+"\n")
	for _, c := range []struct{ zero, two, want string }{
		{one, other, "has other content than the file of rank 0"},
		{one, "", rendezvous.SecretFileEnv + " is set where rank 0 runs but not here"},
		{"", other, rendezvous.SecretFileEnv + " is set here but not where rank 0 runs"},
		{one, t.TempDir() + "/none", "no such file"},
	} {
		s := ranks(t, "secret", 3)
		s.Env = append(s.Env, rendezvous.SecretFileEnv+"="+c.zero, fileOfEnv+"2="+c.two)
		s.OnFailure = spawn.Abort
		res, out, err := run(t, s)
		require.Equal(t, 9, res.Ends[2].Code, err)
		require.Contains(t, err, c.want)
		require.Contains(t, err, pmi.ErrEnvironment.Error())
		require.NotContains(t, out+err, sixteenBytes)
	}
}

func TestRendezvousWithSecrets(t *testing.T) {
	t.Parallel() // rank 0 waits for the time-out
	one, other := fileOf(t, sixteenBytes), fileOf(t, sixteenBytes+"x")
	port := somePort(t)
	host := setOut(t, "start-up", port, 0, 4, rendezvous.SecretFileEnv+"="+one, pmi.InitTimeoutEnv+"=10s")
	known := []*single{host} // rank 3 never comes
	for r := 1; r < 3; r++ {
		known = append(known, setOut(t, "start-up", port, r, 4, rendezvous.SecretFileEnv+"="+one))
	}
	for file, want := range map[string]string{
		other: "start-up: launch: rank 0 at 127.0.0.1:" + port + ": the launcher refused: RANK=2 has another secret than rank 0: give all ranks the same file (BANYAN_SECRET_FILE)\n",
		"":    "start-up: launch: rank 0 at 127.0.0.1:" + port + ": the launcher refused: RANK=2 has no BANYAN_SECRET_FILE, rank 0 has: set it for all ranks or for none\n",
	} {
		require.Equal(t, "joining\n"+want, setOut(t, "start-up", port, 2, 4, rendezvous.SecretFileEnv+"="+file).end(9))
	}
	for _, s := range known {
		require.Regexp(t, `^joining\nstart-up: launch: rank 3 has not joined within 10s \(refused: RANK=2 has (no BANYAN_SECRET_FILE|another secret).*\)\n$`, s.end(0))
	}
}

// A world of one has a secret of its own, and looks at no file.
func TestSecretOfOne(t *testing.T) {
	t.Setenv(rendezvous.SecretFileEnv, "/nowhere")
	a, err := join.Join(t.Context())
	require.NoError(t, err)
	b, err := join.Join(t.Context())
	require.NoError(t, err)
	one, err := a.Secret(t.Context())
	require.NoError(t, err)
	two, err := b.Secret(t.Context())
	require.NoError(t, err)
	require.Len(t, one, rendezvous.SecretLen)
	require.NotEqual(t, one, two)
	require.NoError(t, unseen(a, one))
	require.NoError(t, a.Finalize(t.Context()))
	_, err = a.Secret(t.Context())
	require.ErrorIs(t, err, pmi.ErrClosed)
}

// unseen looks for the secret where others could read it.
func unseen(j *join.Job, secret []byte) error {
	again, err := j.Secret(context.Background())
	if err != nil || !bytes.Equal(again, secret) || len(secret) != rendezvous.SecretLen {
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

// fileOf writes a file as Job.Secret wants it.
func fileOf(t *testing.T, content string) string {
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o400))
	return path
}

const sixteenBytes = "0123456789abcdef"
