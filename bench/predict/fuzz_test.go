package predict

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric/sim"
)

// Any file of a machine gives one that can be simulated, and that is the same when it is written and read
// again, or an error.
func FuzzLoad(f *testing.F) {
	for _, name := range sim.Profiles() {
		p, err := builtin(name)
		require.NoError(f, err)
		text, err := json.Marshal(p)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Add([]byte(`{"ranks_per_node":1,"nodes_per_switch":1,"credits":-1} x`))
	f.Add([]byte(`{"ranks_per_node":9223372036854775807,"nodes_per_switch":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		p, err := Load(path)
		if err != nil {
			require.ErrorContains(t, err, path)
			return
		}
		again, err := json.Marshal(p)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, again, 0o600))
		q, err := Load(path)
		require.NoError(t, err)
		require.Equal(t, p, q)
		_, err = sim.New(q.Config(2))
		require.NoError(t, err)
	})
}
