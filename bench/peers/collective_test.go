package peers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseCollective(t *testing.T) {
	op, err := ParseCollective("bcast:1024")
	require.NoError(t, err)
	require.Equal(t, Collective{Op: "bcast", Bytes: 1024}, op)
	for _, text := range []string{"", "bcast", "bcast:", "bcast:-1", "bcast:x"} {
		_, err := ParseCollective(text)
		require.Error(t, err, text)
	}
}

func TestULFMTools(t *testing.T) {
	require.Equal(t, "mpicc.openmpi", ULFM("").Compiler)
	require.Equal(t, "mpicc", ULFM("/opt/openmpi/bin").Compiler)
	require.Contains(t, ULFM("/opt/openmpi/bin").Options, "--with-ft")
	require.NotContains(t, OpenMPI.Options, "--with-ft")
}
