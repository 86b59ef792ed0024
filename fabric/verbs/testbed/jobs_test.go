//go:build rdma

package testbed

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// Jobs of three ranks in two machines, of which the second has the last rank, the victim. Ranks start as
// docs/clusters.md, "Without launcher", says.

// begin starts this machine's ranks, which are then in the list pids.
const begin = `set -e
	export WORLD_SIZE=3 MASTER_ADDR=10.77.0.1 MASTER_PORT=29511 BANYAN_FABRIC=shm,verbs BANYAN_VERBOSE=1
	pids=()
	begin() {
		export BANYAN_TEST_ROLE=$1
		mine='0 1'; [ $RDMA_VM_INDEX = 0 ] || mine=2
		for rank in $mine; do RANK=$rank "$0" & pids+=($!); done
	}
	finish() { for pid in ${pids[@]}; do wait $pid; done; }
	await() { for file; do until [ -e $RDMA_VM_SHARE/$file ]; do sleep .05; done; done; }
	`

// job runs a script in two machines, with ranks that fall silent for five seconds counting as failed. Options are those of rdma-vm.
func job(t *testing.T, script string, options ...string) result {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, variable := range ranktest.Steady {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	return start(t, slices.Concat([]string{"-n", "2"}, options, []string{"--", "bash", "-c", begin + script, self})...)
}

func TestJobOfTwoMachines(t *testing.T) {
	got := job(t, `begin exchanges; finish`)
	require.Zero(t, got.status, got)
	require.Contains(t, got.errs, "sends over RDMA, device rxe0")
}

// The same over iWARP, by a driver that is built from Debian's source.
func TestJobOverIWARP(t *testing.T) {
	got := job(t, `begin exchanges; finish`, "-d", "siw", "-t", "300")
	require.Zero(t, got.status, got)
	require.Contains(t, got.errs, "sends over RDMA, device siw0")
}

// The tests of windows whose ranks are processes, all of them joined by the device: operations, long ones, and random
// programs, of which ranks are killed at random steps.
func TestWindows(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "windows.test")
	said, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", binary, "../../../internal/systest/windows").CombinedOutput()
	require.NoError(t, err, string(said))
	t.Setenv("BANYAN_FABRIC", "verbs")
	got := start(t, "-t", "300", "--", binary, "-test.short", "-test.run", "OfProcesses", "-test.v")
	require.Zero(t, got.status, got)
	require.Contains(t, got.out, "PASS: TestRandomProgramsOfProcesses")
}

// failed matches the lines of survivors.
var failed = regexp.MustCompile(`(?m)^\[0\] rank [01], after (\d+) ms: .*rank 2.*$`)

// mostSilence is the longest detection of ft/detect with ranktest.Steady, for any set of silent ranks, in milliseconds.
const mostSilence = 2*5000 + 4*100

// survived checks that the two survivors of a job have found the victim's failure in time.
func survived(t *testing.T, got result) {
	t.Helper()
	require.Zero(t, got.status, got)
	found := failed.FindAllStringSubmatch(got.out, -1)
	require.Len(t, found, 2, got)
	for _, one := range found {
		t.Log(one[0])
		ms, err := strconv.Atoi(one[1])
		require.NoError(t, err)
		require.LessOrEqual(t, ms, mostSilence)
	}
}

// whenGoing has machine 1 do something to the victim, as soon as all ranks of machine 0 are in the calls that fail.
const whenGoing = `if [ $RDMA_VM_INDEX = 1 ]; then await going.0 going.1; `

// whenGoing0 is whenGoing where only rank 0 says so.
const whenGoing0 = `if [ $RDMA_VM_INDEX = 1 ]; then await going.0; `

func TestKilledRank(t *testing.T) {
	survived(t, job(t, `begin waits
		`+whenGoing+`kill -9 $pids; await over; exit 0; fi
		finish; touch $RDMA_VM_SHARE/over`))
}

func TestLostMachine(t *testing.T) {
	survived(t, job(t, `begin waits
		`+whenGoing+`echo 0 >$RDMA_VM_SHARE/status.1; echo b >/proc/sysrq-trigger; sleep infinity; fi
		finish`))
}

// A rank that is stopped answers no peer, although its adapter does. It counts as failed, and ends when it goes on.
func TestStoppedRank(t *testing.T) {
	survived(t, job(t, `begin waits
		`+whenGoing+`kill -STOP $pids; await over; kill -CONT $pids; ! wait $pids; exit; fi
		finish; touch $RDMA_VM_SHARE/over`))
}

// A machine that is frozen answers no peer, nor does its adapter. Its rank counts as failed, and ends when the machine goes on.
func TestFrozenMachine(t *testing.T) {
	survived(t, job(t, `begin waits
		`+whenGoing+`touch $RDMA_VM_SHARE/freeze.1; await over; ! wait $pids; exit; fi
		finish; touch $RDMA_VM_SHARE/over $RDMA_VM_SHARE/thaw.1`))
}

// Messages of a megabyte are read over both devices of a machine. When one fails, they are read over the other, or, on a host
// that is so busy that this one counts as failed too, go as frames: fabric/verbs.TestRails.
func TestRailFails(t *testing.T) {
	got := job(t, `begin rails
		`+whenGoing0+`ip link set eth1 down; touch $RDMA_VM_SHARE/down; fi
		finish`, "-i", "2")
	require.Zero(t, got.status, got)
	require.Regexp(t, `a port for reads has failed, port 1, bytes [1-9]`, got.errs)
	t.Log(got)
}

// A lane whose device fails goes to the other one, and so do the sockets, whose interface is the same.
func TestLaneGoesToTheOtherDevice(t *testing.T) {
	got := job(t, `export MASTER_ADDR=10.78.0.1
		begin 'goes on'
		`+whenGoing0+`ip link set eth0 down; touch $RDMA_VM_SHARE/healed; fi
		finish`, "-i", "2")
	require.Zero(t, got.status, got)
	require.Contains(t, got.errs, "sends over RDMA, device rxe1")
	t.Log(got)
}

// A link that comes back in time is no failure: each message arrives once, over RDMA or the sockets.
func TestLinkComesBack(t *testing.T) {
	got := job(t, `begin 'goes on'
		`+whenGoing0+`ip link set eth0 down; sleep 2; ip link set eth0 up; touch $RDMA_VM_SHARE/healed; fi
		finish`)
	require.Zero(t, got.status, got)
	t.Log(got)
}
