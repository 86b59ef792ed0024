package job

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/coll"
)

// The report of SIGQUIT names the operation of a message by its tag.
func TestOpOfTag(t *testing.T) {
	for kind := coll.Barrier; kind <= coll.Exscan; kind++ {
		require.Equal(t, kind.String(), opOfTag(kind.Tag()))
	}
	require.Equal(t, "collective", opOfTag(int(coll.Exscan)), "that of a collective segment")
}
