package rendezvous

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/stretchr/testify/require"
)

func lookIn(text string) pmi.Lookup {
	vars := map[string]string{}
	for v := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(v, "=")
		vars[name] = value
	}
	return func(n string) (string, bool) { v, ok := vars[n]; return v, ok }
}

func TestWrongEnvironment(t *testing.T) {
	for env, want := range map[string]string{
		"RANK=1":                                                            "WORLD_SIZE is not set",
		"RANK=1 WORLD_SIZE=4":                                               "MASTER_PORT is not",
		"WORLD_SIZE=4":                                                      "neither RANK nor PMI_FD",
		"RANK=4 WORLD_SIZE=4 MASTER_PORT=1":                                 "RANK=4 is not below WORLD_SIZE=4",
		"RANK=-1 WORLD_SIZE=4 MASTER_PORT=1":                                `RANK="-1"`,
		"RANK=x WORLD_SIZE=4 MASTER_PORT=1":                                 `RANK="x"`,
		"RANK= WORLD_SIZE=4 MASTER_PORT=1":                                  `RANK=""`,
		"RANK=0 WORLD_SIZE=0 MASTER_PORT=1":                                 `WORLD_SIZE="0"`,
		"RANK=0 WORLD_SIZE=99999999 MASTER_PORT=1":                          `WORLD_SIZE="99999999"`,
		"RANK=1 WORLD_SIZE=1 MASTER_PORT=1":                                 "not below",
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=0":                                 `MASTER_PORT="0"`,
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=65536":                             `MASTER_PORT="65536"`,
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=http":                              `MASTER_PORT="http"`,
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=node7:29500":         "MASTER_ADDR=node7:29500 is neither",
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=tcp://node7":         "the port goes into MASTER_PORT",
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=1 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2": `LOCAL_RANK="2"`,
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3": `LOCAL_WORLD_SIZE="3"`,
		"RANK=0 WORLD_SIZE=2 MASTER_PORT=1 BANYAN_INIT_TIMEOUT=soon":        `BANYAN_INIT_TIMEOUT="soon"`,
	} {
		_, ok, err := FromEnvironment(lookIn(env))
		require.False(t, ok, env)
		require.ErrorContains(t, err, want, env)
		if !strings.Contains(env, pmi.InitTimeoutEnv) {
			require.ErrorIs(t, err, pmi.ErrEnvironment)
		}
	}
	for _, env := range []string{"", "RANK=0", "RANK=colonel", "WORLD_SIZE=1", "RANK=0 WORLD_SIZE=1", "LOCAL_RANK=3"} {
		_, ok, err := FromEnvironment(lookIn(env))
		require.False(t, ok, env)
		require.NoError(t, err, env)
	}
}

func TestConfigFromEnvironment(t *testing.T) {
	const base = "RANK=3 WORLD_SIZE=6 MASTER_PORT=29500 "
	for env, want := range map[string]Config{
		"":                                   {Addr: "127.0.0.1:29500"},
		"MASTER_ADDR=":                       {Addr: "127.0.0.1:29500"},
		"MASTER_ADDR=::1":                    {Addr: "[::1]:29500"},
		"MASTER_ADDR=[fd00::7]":              {Addr: "[fd00::7]:29500"},
		"MASTER_ADDR=fe80::7%eth0":           {Addr: "[fe80::7%eth0]:29500"},
		"MASTER_ADDR=node7":                  {Addr: "node7:29500"},
		"LOCAL_RANK=1 LOCAL_WORLD_SIZE=2":    {Addr: "127.0.0.1:29500", Nodes: pmi.Nodes(3, 2)},
		"LOCAL_RANK=3 LOCAL_WORLD_SIZE=6":    {Addr: "127.0.0.1:29500", Nodes: pmi.Nodes(1, 6)},
		"LOCAL_RANK=0 LOCAL_WORLD_SIZE=2":    {Addr: "127.0.0.1:29500"}, // another order of ranks
		"LOCAL_RANK=3 LOCAL_WORLD_SIZE=4":    {Addr: "127.0.0.1:29500"}, // nodes differ
		"LOCAL_RANK=0":                       {Addr: "127.0.0.1:29500"},
		"TORCHELASTIC_USE_AGENT_STORE=True":  {Addr: "127.0.0.1:29500", agent: true},
		"TORCHELASTIC_USE_AGENT_STORE=False": {Addr: "127.0.0.1:29500"},
	} {
		p, ok, err := FromEnvironment(lookIn(base + env))
		require.NoError(t, err)
		require.True(t, ok)
		want.timeout = pmi.DefaultInitTimeout
		want.Rank, want.Size = 3, 6
		require.Equal(t, &want, p, env)
	}
	one, _, _ := FromEnvironment(lookIn(base + "TORCHELASTIC_RUN_ID=one"))
	two, _, _ := FromEnvironment(lookIn(base + "TORCHELASTIC_RUN_ID=two"))
	require.NotEqual(t, one.token, two.token)
	require.Len(t, one.token, 16)
}

// Any environment of users gives no rank of a job, an error of its class, or a valid rendezvous.
func FuzzEnvironment(f *testing.F) {
	f.Add("RANK=1\nWORLD_SIZE=4\nMASTER_PORT=29500\nMASTER_ADDR=[::1]\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nTORCHELASTIC_RUN_ID=x y")
	f.Add("RANK=1\nWORLD_SIZE=4194304\nMASTER_PORT=65536\nMASTER_ADDR=a:b\nBANYAN_INIT_TIMEOUT=1e300")
	f.Fuzz(func(t *testing.T, text string) {
		vars := map[string]string{}
		for line := range strings.SplitSeq(text, "\n") {
			if name, value, ok := strings.Cut(line, "="); ok {
				vars[name] = value
			}
		}
		p, ok, err := FromEnvironment(func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
		if err != nil {
			require.ErrorIs(t, err, pmi.ErrEnvironment)
		}
		if err != nil || !ok {
			return
		}
		require.True(t, 0 <= p.Rank && p.Rank < p.Size && p.Size <= proc.MaxIDs)
		p.named()
		_, port, err := net.SplitHostPort(p.Addr)
		require.NoError(t, err)
		n, err := strconv.ParseUint(port, 10, 16)
		require.NoError(t, err)
		require.NotZero(t, n)
		require.Positive(t, p.timeout)
		if p.Nodes != nil {
			require.GreaterOrEqual(t, p.Nodes.NodeOf(p.Rank), 0)
		}
	})
}
