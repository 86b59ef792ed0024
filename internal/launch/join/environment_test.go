package join

import (
	"strings"
	"testing"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/stretchr/testify/require"
)

func TestEnvironment(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"PMI_FD=3 PMI_RANK=0", "PMI_SIZE is not"},
		{"PMI_FD=3 PMI_SIZE=2", "PMI_RANK is not"},
		{"PMI_FD=3 PMI_RANK=0 RANK=0 WORLD_SIZE=2 MASTER_PORT=1", "PMI_SIZE is not"}, // not RANK
		{"PMI_RANK=1 PMI_SIZE=2", "PMI_FD is not"},
		{"PMI_FD=x PMI_RANK=0 PMI_SIZE=1", `PMI_FD="x"`},
		{"PMI_FD=3 PMI_RANK=-1 PMI_SIZE=1", `PMI_RANK="-1"`},
		{"PMI_FD=3 PMI_RANK=0 PMI_SIZE=99999999", `PMI_SIZE="99999999"`},
		{"PMI_FD=3 PMI_RANK=2 PMI_SIZE=2", "not below"},
		{"PMI_PORT=host:1 PMI_ID=0", "PMI_PORT"},
		{"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_SIZE=2"},
		{"SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2"},
		{"SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0", ""},
		{"SLURM_NTASKS=4 SLURM_PROCID=0", ""}, // a batch script
		{"", ""},
		{"RANK=0 WORLD_SIZE=1", ""},
	} {
		vars := map[string]string{}
		for v := range strings.FieldsSeq(c.env) {
			name, value, _ := strings.Cut(v, "=")
			vars[name] = value
		}
		_, ok, err := findPlace(func(n string) (string, bool) { v, ok := vars[n]; return v, ok })
		require.False(t, ok, c.env)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, pmi.ErrEnvironment)
		require.ErrorContains(t, err, c.want)
	}
}

// Any environment of launchers and users gives no rank of a job, an error of its class that names a
// variable, or a valid place.
func FuzzPlace(f *testing.F) {
	f.Add("PMI_FD=3\nPMI_RANK=1\nPMI_SIZE=4")
	f.Add("RANK=1\nWORLD_SIZE=4\nMASTER_PORT=29500\nMASTER_ADDR=[::1]\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nTORCHELASTIC_RUN_ID=x y")
	f.Add("RANK=1\nWORLD_SIZE=4194304\nMASTER_PORT=65536\nMASTER_ADDR=a:b\nBANYAN_INIT_TIMEOUT=1e300")
	f.Add("PMI_PORT=1\nOMPI_COMM_WORLD_SIZE=x\nSLURM_STEP_NUM_TASKS=2")
	f.Fuzz(func(t *testing.T, text string) {
		vars := map[string]string{}
		for line := range strings.SplitSeq(text, "\n") {
			if name, value, ok := strings.Cut(line, "="); ok {
				vars[name] = value
			}
		}
		p, ok, err := findPlace(func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
		switch {
		case err != nil:
			require.ErrorIs(t, err, pmi.ErrEnvironment)
		case ok:
			require.True(t, 0 <= p.rank && p.rank < p.size && p.size <= proc.MaxIDs)
		}
	})
}
