package rendezvous

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"golang.org/x/sys/unix"
)

// SecretFileEnv names the environment variable that names the file of the secret.
const SecretFileEnv = "BANYAN_SECRET_FILE"

const (
	// SecretLen is the length of a secret, in bytes.
	SecretLen = 32
	// SecretFileMin and SecretFileMax bound the file of SecretFileEnv, in bytes.
	SecretFileMin, SecretFileMax = 16, 4096
)

// The value that rank 0 publishes starts with the source of the secret.
const (
	fromRandom = 'r' // the secret follows
	fromFile   = 'f' // a check value follows
)

// checkLen is the length of a check value: a digest of the secret, by which a rank notices that its
// file differs. It is no help in guessing a secret of 16 random bytes.
const checkLen = 8

// Secret is the source of the secrets of a job. A nil seed means that there is no file.
type Secret struct {
	path string
	prk  []byte // extracted from the file by HKDF
}

// ReadSecret reads the file that path names; "" is no file.
//
// A symbolic link is followed: Kubernetes makes links of the files of a secret. The group may read,
// by which a process that is not root reads there (fsGroup), and by which the members of a project
// share a file. Other users may not, as with the keys of ssh: nothing else on a shared machine
// protects the file.
func ReadSecret(path string) (*Secret, error) {
	if path == "" {
		return nil, nil
	}
	wrong := func(format string, args ...any) error {
		return pmi.EnvironmentError("%s=%s: %w", SecretFileEnv, path, fmt.Errorf(format, args...))
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
		return nil, wrong("every user may read it (mode %04o): chmod 0400, or 0440 if its group is to read it "+
			"(Kubernetes: defaultMode); where the mode cannot be set, use a copy", st.Mode().Perm())
	case st.Mode().Perm()&0o022 != 0:
		return nil, wrong("others than its owner may write it (mode %04o): "+
			"chmod 0400, or 0440 if its group is to read it", st.Mode().Perm())
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
	return &Secret{path, prk}, nil
}

// derive makes a secret for one purpose.
func (s *Secret) derive(purpose string) (secret [SecretLen]byte) {
	b, err := hkdf.Expand(sha256.New, s.prk, "banyan 1 "+purpose, SecretLen)
	if err != nil {
		panic("launch: HKDF refuses what it has extracted itself: " + err.Error())
	}
	return [SecretLen]byte(b)
}

// Share returns the secret for a purpose, with the value that rank 0 publishes: a check value or,
// without a file, the random secret itself.
func (s *Secret) Share(purpose string) (secret [SecretLen]byte, published []byte) {
	if s == nil {
		_, _ = rand.Read(secret[:]) // never fails: it ends the program instead
		return secret, append([]byte{fromRandom}, secret[:]...)
	}
	secret = s.derive(purpose)
	return secret, append([]byte{fromFile}, check(secret)...)
}

// check is the check value of a secret.
func check(secret [SecretLen]byte) []byte {
	sum := sha256.Sum256(append([]byte("banyan 1 check "), secret[:]...))
	return sum[:checkLen]
}

// Compare returns the secret for a purpose, given the value that rank 0 has published.
func (s *Secret) Compare(purpose string, published []byte) (own [SecretLen]byte, err error) {
	if s != nil {
		own = s.derive(purpose)
	}
	if len(published) == 0 {
		return own, errors.New("rank 0 has published nothing: start all ranks from one build")
	}
	source, published := published[0], published[1:]
	switch {
	case source == fromRandom && s == nil && len(published) == SecretLen:
		return [SecretLen]byte(published), nil
	case source == fromRandom && s != nil:
		return own, fmt.Errorf("%w: %s is set here but not where rank 0 runs: "+
			"set it for all ranks or for none", pmi.ErrEnvironment, SecretFileEnv)
	case source == fromFile && s == nil:
		return own, fmt.Errorf("%w: %s is set where rank 0 runs but not here: "+
			"set it for all ranks or for none", pmi.ErrEnvironment, SecretFileEnv)
	case source == fromFile && len(published) == checkLen && subtle.ConstantTimeCompare(published, check(own)) == 1:
		return own, nil
	case source == fromFile && len(published) == checkLen:
		return own, fmt.Errorf("%w: %s=%s has other content than the file of rank 0: "+
			"give all ranks the same", pmi.ErrEnvironment, SecretFileEnv, s.path)
	}
	return own, fmt.Errorf("rank 0 has published %d bytes that are no secret: "+
		"start all ranks from one build", len(published))
}
