//go:build launchers

package startup

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// cluster is Slurm on this machine alone: a controller and two nodes with different ports. All its
// files lie in dir.
type cluster struct {
	t   *testing.T
	dir string
	env []string
}

const clusterConf = `ClusterName=banyan
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[3]s
SlurmUser=%[2]s
SlurmdUser=%[2]s
AuthType=auth/munge
AuthInfo=socket=%[6]s/munge.socket
StateSaveLocation=%[6]s/state
SlurmdSpoolDir=%[6]s/spool.%%n
SlurmctldPidFile=%[6]s/slurmctld.pid
SlurmdPidFile=%[6]s/slurmd.%%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=n0 NodeHostname=%[1]s NodeAddr=127.0.0.1 Port=%[4]s CPUs=4
NodeName=n1 NodeHostname=%[1]s NodeAddr=127.0.0.1 Port=%[5]s CPUs=4
PartitionName=all Nodes=n0,n1 Default=YES State=UP
`

// startCluster starts the daemons; their clients wait until they serve.
func startCluster(t *testing.T) *cluster {
	c := &cluster{t: t, dir: t.TempDir()}
	conf := filepath.Join(c.dir, "slurm.conf")
	c.env = append(asFour(), "SLURM_CONF="+conf, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")

	host, err := os.Hostname()
	require.NoError(t, err)
	host, _, _ = strings.Cut(host, ".")
	self, err := user.Current()
	require.NoError(t, err)
	text := fmt.Sprintf(clusterConf, host, self.Username, freePort(t), freePort(t), freePort(t), c.dir)
	require.NoError(t, os.WriteFile(conf, []byte(text), 0o644))
	key := make([]byte, 128)
	_, _ = rand.Read(key)
	require.NoError(t, os.WriteFile(c.dir+"/munge.key", key, 0o600))
	for _, d := range []string{"state", "spool.n0", "spool.n1"} {
		require.NoError(t, os.Mkdir(filepath.Join(c.dir, d), 0o755))
	}
	// munged accepts no folder that others may write to.
	require.NoError(t, os.Chmod(c.dir, 0o755))
	c.daemon("munged", "--force", "--foreground", "--socket="+c.dir+"/munge.socket", "--key-file="+c.dir+"/munge.key",
		"--log-file="+c.dir+"/munge.log", "--pid-file="+c.dir+"/munge.pid", "--seed-file="+c.dir+"/munge.seed")
	c.daemon("slurmctld", "-D", "-f", conf)
	c.daemon("slurmd", "-D", "-N", "n0", "-f", conf)
	c.daemon("slurmd", "-D", "-N", "n1", "-f", conf)
	return c
}

// daemon starts a program that ends with the test.
func (c *cluster) daemon(name string, args ...string) {
	cmd := exec.Command(name, args...)
	cmd.Env = c.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(c.t, cmd.Start(), "make launchers installs what is missing")
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if c.t.Failed() {
			c.t.Logf("%s\n%s", cmd, &out)
		}
	})
}

// srun is a command that runs this binary on four ranks. Slurm ends it after two minutes, so that
// nothing is left behind.
func (c *cluster) srun(args ...string) []string {
	return append(append([]string{"--time=2", "-n", strconv.Itoa(four)}, args...), me(c.t))
}

// Slurm's plugin for PMI-2 serves the version that the rank asks for, and Banyan asks for PMI-1.
func TestLaunchersSlurm(t *testing.T) {
	c := startCluster(t)
	for _, nodes := range []string{"-N1", "-N2"} {
		t.Run(nodes, func(t *testing.T) {
			spoke(t, tool(t, c.env, "srun", c.srun("--mpi=pmi2", nodes)...))
		})
	}
	t.Run("after a death", func(t *testing.T) {
		leaves(t, "bereaved", c.env, "srun", c.srun("--mpi=pmi2", "-N1", "--kill-on-bad-exit=0", "--wait=0")...)
	})
	t.Run("no PMI", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), "srun", c.srun("--mpi=none", "-N1")...)
		cmd.Env = c.env
		out, err := cmd.CombinedOutput()
		require.Error(t, err, "four worlds of one")
		require.Contains(t, string(out), "SLURM_STEP_NUM_TASKS=4 says this is one of several processes")
	})
}
