package launch

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// SecretFileEnv names the environment variable that names a file with what the
// job's secret is derived from, see [Job.Secret].
const SecretFileEnv = "BANYAN_SECRET_FILE"

const (
	// SecretLen is the length of what Job.Secret returns, in bytes.
	SecretLen = 32
	// SecretFileMin and SecretFileMax bound the file of SecretFileEnv, in bytes.
	SecretFileMin, SecretFileMax = 16, 4096
)

// secretKey is where rank 0 publishes what the others need. No key of a user's
// has a dash.
const secretKey = "job-secret"

// What rank 0 publishes begins with where the secret comes from.
const (
	fromRandom = 'r' // the secret follows
	fromFile   = 'f' // a check value follows
)

// checkLen is the length of a check value: a digest of the secret, by which a
// rank learns that its file is another one. It is no help in guessing a secret
// of 16 random bytes.
const checkLen = 8

// Secret returns 32 bytes that are the same in all ranks of the job and that
// nobody else knows, as far as the way allows by which they travel (package
// comment, "The secret"). They are derived from the file that [SecretFileEnv]
// names and from the job's ID, so two jobs with one file have different ones.
// Without file rank 0 makes them at random and publishes them as [Job.Put] does.
//
// It costs no fence of its own if rank 0 calls it before a fence that there is
// anyway, and the others after it:
//
//	if job.Rank() == 0 {
//		secret, err = job.Secret(ctx) // returns at once
//	}
//	err = job.Fence(ctx)
//	if job.Rank() > 0 {
//		secret, err = job.Secret(ctx)
//	}
//
// Later calls return the same. A rank that calls it too early gets an error of
// class [ErrNotFound]; one whose file is not that of rank 0, or that has a file
// when rank 0 has none, gets one of class [ErrEnvironment]. The secret of a
// world of one is random, and no file is read.
func (j *Job) Secret(ctx context.Context) ([]byte, error) {
	if err := j.begin(ctx, "secret"); err != nil {
		return nil, err
	}
	defer j.end()
	if j.secret == nil {
		secret, err := j.findSecret(ctx)
		if err != nil {
			return nil, fmt.Errorf("launch: secret: %w", err)
		}
		j.secret = &secret
	}
	return slices.Clone(j.secret[:]), nil
}

// findSecret is called with the turn.
func (j *Job) findSecret(ctx context.Context) (secret [SecretLen]byte, err error) {
	if j.seed != nil {
		secret = j.seed.derive("job " + j.id)
	}
	if j.rank > 0 {
		said, err := j.lookup(ctx, 0, secretKey)
		if errors.Is(err, ErrNotFound) {
			err = fmt.Errorf("%w: rank 0 calls Secret before a Fence, the others after it", ErrNotFound)
		}
		if err != nil {
			return secret, err
		}
		return j.seed.compare(secret, said)
	}
	published := append([]byte{fromFile}, check(secret)...)
	if j.seed == nil {
		_, _ = rand.Read(secret[:]) // never fails: it ends the program instead
		published = append([]byte{fromRandom}, secret[:]...)
	}
	if j.size == 1 {
		return secret, nil
	}
	return secret, j.publish(ctx, secretKey, published)
}

// seed is what the secrets of a job are derived from. A nil seed means that
// there is no file.
type seed struct {
	path string
	prk  []byte // what HKDF has extracted from the file
}

// readSeed reads the file that path names; "" is no file.
//
// A symbolic link is followed: Kubernetes makes links of the files of a secret.
// The group may read, which is how a process that is not root reads there
// (fsGroup), and how the members of a project share a file. Everybody may not,
// as with the keys of ssh: nothing else on a shared machine would keep them out.
func readSeed(path string) (*seed, error) {
	if path == "" {
		return nil, nil
	}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("launch: %w: %s=%s: %w", ErrEnvironment, SecretFileEnv, path, fmt.Errorf(format, args...))
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a fifo would wait for its writer
	if err != nil {
		return nil, wrong("%w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, wrong("%w", err)
	case !st.Mode().IsRegular():
		return nil, wrong("is no regular file but %s", st.Mode().Type())
	case st.Mode().Perm()&0o004 != 0:
		return nil, wrong("everybody may read it (mode %04o): chmod 0400, or 0440 if its group is to read it (Kubernetes: defaultMode); where the mode cannot be set, use a copy", st.Mode().Perm())
	case st.Mode().Perm()&0o022 != 0:
		return nil, wrong("others than its owner may write it (mode %04o): chmod 0400, or 0440 if its group is to read it", st.Mode().Perm())
	}
	content, err := io.ReadAll(io.LimitReader(f, SecretFileMax+1))
	switch {
	case err != nil:
		return nil, wrong("%w", err)
	case len(content) < SecretFileMin:
		return nil, wrong("has %d bytes, at least %d are needed: head -c 32 /dev/urandom >FILE", len(content), SecretFileMin)
	case len(content) > SecretFileMax:
		return nil, wrong("has more than %d bytes", SecretFileMax)
	}
	prk, err := hkdf.Extract(sha256.New, content, []byte("banyan"))
	if err != nil {
		return nil, wrong("%w", err) // the program runs in a mode that forbids this
	}
	return &seed{path, prk}, nil
}

// derive makes a secret for one purpose.
func (s *seed) derive(purpose string) (secret [SecretLen]byte) {
	b, err := hkdf.Expand(sha256.New, s.prk, "banyan 1 "+purpose, SecretLen)
	if err != nil {
		panic("launch: HKDF refuses what it has extracted itself: " + err.Error())
	}
	return [SecretLen]byte(b)
}

// check is the check value of a secret.
func check(secret [SecretLen]byte) []byte {
	sum := sha256.Sum256(append([]byte("banyan 1 check "), secret[:]...))
	return sum[:checkLen]
}

// compare returns the job's secret, given what this rank has derived and what
// rank 0 has said.
func (s *seed) compare(own [SecretLen]byte, said []byte) ([SecretLen]byte, error) {
	if len(said) == 0 {
		return own, errors.New("rank 0 has published nothing: start all ranks from one build")
	}
	source, said := said[0], said[1:]
	switch {
	case source == fromRandom && s == nil && len(said) == SecretLen:
		return [SecretLen]byte(said), nil
	case source == fromRandom && s != nil:
		return own, fmt.Errorf("%w: %s is set here but not where rank 0 runs: set it for all ranks or for none", ErrEnvironment, SecretFileEnv)
	case source == fromFile && s == nil:
		return own, fmt.Errorf("%w: %s is set where rank 0 runs but not here: set it for all ranks or for none", ErrEnvironment, SecretFileEnv)
	case source == fromFile && len(said) == checkLen && subtle.ConstantTimeCompare(said, check(own)) == 1:
		return own, nil
	case source == fromFile && len(said) == checkLen:
		return own, fmt.Errorf("%w: %s=%s has other content than the file of rank 0: give all ranks the same", ErrEnvironment, SecretFileEnv, s.path)
	}
	return own, fmt.Errorf("rank 0 has published %d bytes that are no secret: start all ranks from one build", len(said))
}
