package launch

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
