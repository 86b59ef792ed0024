package spawn

import (
	"strings"
	"testing"

	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/stretchr/testify/require"
)

func FuzzOffered(f *testing.F) {
	f.Add("0\n")
	f.Add("-1000\n")
	f.Add("900")
	f.Fuzz(func(t *testing.T, own string) {
		if n, ok := offeredOf(own); ok {
			require.True(t, n >= -1000+offered && n <= 1000, "%d", n)
		}
	})
}

// With any variables of a launcher, ranks get each once, the last of several, and none by which a
// launcher above this one describes itself.
func FuzzEnviron(f *testing.F) {
	f.Add("A=1\nA=2\nPMI_FD=3\nBANYAN_EXITS=4,5,6\nBANYAN_X=7\nHOME", "A\nB=2")
	f.Add("BANYAN_EXITS\nBANYAN_JOB\n=\n==", "A=1")
	f.Fuzz(func(t *testing.T, environ, export string) {
		env := strings.Split(environ, "\n")
		more, err := Exported(env, strings.Split(export, "\n"))
		if err != nil {
			return
		}
		kept := WithoutLauncher(append(env, more...))
		seen := map[string]bool{}
		for _, e := range kept {
			name, value, _ := strings.Cut(e, "=")
			require.False(t, seen[name], "%q twice", name)
			seen[name] = true
			require.False(t, strings.HasPrefix(name, "PMI_") || name == exits.Env && exits.Descriptors(value), e)
		}
	})
}
