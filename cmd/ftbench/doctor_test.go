package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/exits"
)

// Alone the command tries every fabric between two real ranks; every line has its
// verdict, and what is missing its cure.
func TestDoctorOfTheMachine(t *testing.T) {
	code, out, errs := ftbench(t, "doctor")
	require.Zero(t, code, errs)
	require.Empty(t, errs)
	for line := range strings.Lines(out) {
		require.Regexp(t, `^(# [a-z ]+|(ok|warning|missing) +\S.*)\n$`, line)
	}
	for _, f := range []string{"shm +two ranks reach each other, shm", "unix +two ranks reach each other, unix", `tcp +two ranks reach each other, tcp \S+ > \S+`} {
		require.Regexp(t, "(?m)^ok +"+f, out)
	}
	for _, part := range []string{"pid namespace", "sealed memfd", "127.0.0.1", "rdma", "deaths", "pidfd", "bpf", "allowed", "open files", "knobs"} {
		require.Contains(t, out, part)
	}
}

func TestDoctorOfSomeFabrics(t *testing.T) {
	t.Setenv(fabricEnv, "") // the command sets it
	t.Setenv(networksEnv, "")
	code, out, errs := ftbench(t, "doctor", "--fabric", "unix", "--networks", "lo")
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^warning +shm +left out`, out)
	require.Regexp(t, `(?m)^warning +tcp +left out`, out)
	require.Regexp(t, `(?m)^ok +lo +127.0.0.1 used: named by lo`, out)
	code, out, errs = ftbench(t, "doctor", "--fabric", "tcp,shm", "--networks", "nothere0")
	require.Equal(t, exitFailed, code, "a fabric that was asked for does not work")
	require.Equal(t, "ftbench: doctor: 2 lines with missing above: each has its cure\n", errs)
	require.Regexp(t, `(?m)^missing +tcp +two ranks do not reach each other: rank \d: tcp: .*nothere0.*: see the parts below$`, out)
	require.NotContains(t, out, "exited with code")
	t.Setenv(fabricEnv, "pigeon")
	code, _, errs = ftbench(t, "doctor")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "pigeon")
}

func TestDoctorSaysThatItCannotPrint(t *testing.T) {
	t.Setenv(fabricEnv, "shm")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	require.ErrorIs(t, new(doctorCmd).machine(&call{out: full, err: io.Discard}), syscall.ENOSPC)
}

// As a job the command prints each pair once.
func TestDoctorOfAJob(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv("BANYAN_DETECT_TIMEOUT", "7s")
	t.Setenv(exits.Env, exits.Off)
	code, out, errs := ftbench(t, "run", "-n", "3", "--", self, "doctor")
	require.Zero(t, code, errs)
	require.Equal(t, `# 3 ranks on 1 node
  rank  node     0    1    2
     0     0     -  shm  shm
     1     0   shm    -  shm
     2     0   shm  shm    -
shm: 6 ways
# failure detection
silence: of 7s is death (detect.timeout), heartbeats each 500ms (detect.period), partition rule majority (detect.partition)
node 0: deaths are told of first by robust words
`, out)
	t.Setenv("BANYAN_DETECT_TIMEOUT", "")
	code, out, errs = ftbench(t, "run", "-n", "3", "--fabric", "tcp", "--verbose", "--", self, "doctor")
	require.Zero(t, code, errs)
	require.Contains(t, out, "tcp: 6 ways, as 0 > 1: not shm: neither may use it (BANYAN_FABRIC")
	require.Regexp(t, `(?m)^# sockets
     0 > 1: tcp \S+:\d+ > \S+:\d+, \w+
     0 > 2: tcp \S+:\d+ > \S+:\d+, \w+
     1 > 2: tcp \S+:\d+ > \S+:\d+, \w+
connections: admitted 3, healed 0, refused 0
# failure detection
silence: of (3s is death \(detect.timeout\)|12s is death \(detect.timeout, 4 times the default as ranks share cores\)), .*
node 0: deaths are told of first by connection$`, out)
	require.Regexp(t, `banyan: rank \d: connections: admitted \d, healed 0, refused 0\n`, errs)
	require.Regexp(t, `banyan: rank \d: rank \d is reached by tcp`, errs)
	code, out, errs = ftbench(t, "run", "-n", "3", "--", "sh", "-c", `if [ $PMI_RANK = 1 ]; then BANYAN_FABRIC=unix; else BANYAN_FABRIC=shm; fi; export BANYAN_FABRIC; exec "$0" doctor`, self)
	require.Equal(t, exitFailed, code)
	require.Regexp(t, `ftbench: doctor: 2 ways without fabric: the reasons are above\nbanyan: rank 0 exited with code 1 after [^\n]*\n$`, errs)
	require.Contains(t, out, "     1     0     ?    -    ?\n")
	require.Contains(t, out, "?: not asked, as rank 0 does not reach it: 1\n")
	require.Contains(t, out, "none: 2 ways, as 0 > 1: route from rank 0 to rank 1: no fabric joins")
}

// What silence is death, and by what deaths are seen on each node.
func TestDeathsOfAJob(t *testing.T) {
	on := banyan.Detection{On: true, Period: 5e8, Timeout: 12e9, Longer: 4, Partition: "majority", Evidence: "pidfd"}
	words, off := on, banyan.Detection{Evidence: "connection"}
	words.Evidence = "robust words"
	node := func(rank int) int { return rank }
	require.Equal(t, `# failure detection
silence: of 12s is death (detect.timeout, 4 times the default as ranks share cores), heartbeats each 500ms (detect.period), partition rule majority (detect.partition)
nodes 0 to 1: deaths are told of first by pidfd
node 3: deaths are told of first by robust words
between nodes: by connection
`, deaths([]*told{{Detection: on}, {Detection: on}, nil, {Detection: words}}, node))
	text := deaths([]*told{{Detection: off}, {Detection: on}}, func(int) int { return 0 })
	require.Contains(t, text, "silence: nobody looks for it (detect is off)")
	require.Contains(t, text, "warning: rank 1 has other values than rank 0 (on true, timeout 12s, ")
	require.Contains(t, text, "node 0: deaths are told of first by connection, by other ranks by pidfd\n")
	require.Contains(t, deaths([]*told{{Detection: off}}, node), "there is nobody to observe")
}

// Networks that join no two machines are named with what there is beside them.
func TestDoctorOfHostsThatAreEnclosed(t *testing.T) {
	if !namespaces(t) {
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	code, out, errs := ftbench(t, "run", "--netns", "2", "--networks", "lo", "--", self, "doctor")
	require.Equal(t, exitFailed, code)
	require.Regexp(t, `none: 1 way, as 0 > 1: .*; not tcp: rank 1 is reached from its own machine only: its networks are lo \(BANYAN_NETWORKS.*\), which leaves out \w+ 10\.\d+\.\d+\.\d+: name what joins the machines`, out)
	require.Contains(t, errs, "doctor: 1 way without fabric")
	code, out, errs = ftbench(t, "run", "--netns", "2", "-n", "4", "--networks", "10.0.0.0/8", "--", self, "doctor")
	require.Zero(t, code, errs)
	require.Contains(t, out, "tcp: 8 ways")
	require.NotContains(t, out, "?")
}

// Networks that are none here are told of where no rank needs them, by one of the ranks.
func TestNetworksThatNobodyNeeds(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(networksEnv, "nothere0")
	code, out, errs := ftbench(t, "run", "-n", "3", "--", self, "doctor")
	require.Zero(t, code, errs)
	require.Contains(t, out, "shm: 6 ways")
	require.Regexp(t, `^banyan: rank 0: tcp: .*"nothere0"; there are lo 127.0.0.1.*: correct the networks \(BANYAN_NETWORKS.* goes on without\n$`, errs)
	t.Setenv(networksEnv, "lo,!nothere0")
	code, _, errs = ftbench(t, "run", "-n", "3", "--", self, "doctor")
	require.Zero(t, code, errs)
	require.Empty(t, errs)
}

// Sockets are listed once a pair; who has refused or healed connections is named.
func TestSocketsTable(t *testing.T) {
	all := make([]*told, 3)
	require.Empty(t, sockets(all))
	all[0] = &told{Reached: []reached{{Fabric: "self"}, {Fabric: "unix", Detail: "unix"}, {Fabric: "tcp", Detail: "tcp a > b, eth0"}}}
	all[1] = &told{Reached: []reached{{Fabric: "unix", Detail: "unix"}, {Fabric: "self"}, {Fabric: "shm"}}}
	all[1].Counters = banyan.Counters{Admitted: 1, Healed: 2, Refused: banyan.Refused{Forgers: 3, Crowded: 1}}
	require.Equal(t, `# sockets
     0 > 1: unix
     0 > 2: tcp a > b, eth0
connections: admitted 1, healed 2, refused 4 (3 forgers, 1 crowded out)
rank 1: admitted 1, healed 2, refused 4 (3 forgers, 1 crowded out)
`, sockets(all))
	all[0].Reached = slices.Repeat([]reached{{Detail: "unix"}}, socketLines+2)
	require.Contains(t, sockets(all), "and 2 pairs more\n")
}

func TestDetailsNameTheInterface(t *testing.T) {
	mine := interfaces()
	require.Equal(t, "lo", mine[netip.MustParseAddr("127.0.0.1")])
	detail := "tcp 127.0.0.1:1 > 127.0.0.1:2"
	require.Equal(t, detail+", lo", details(banyan.Route{Fabric: "tcp", Detail: detail}, mine))
	require.Equal(t, detail+", an interface that has gone", details(banyan.Route{Fabric: "tcp", Detail: detail}, nil))
	require.Equal(t, "unix", details(banyan.Route{Fabric: "unix", Detail: "unix"}, mine))
	require.Equal(t, "tcp, not connected yet", details(banyan.Route{Fabric: "tcp", Detail: "tcp, not connected yet"}, mine))
	require.Empty(t, details(banyan.Route{Fabric: "shm"}, mine))
}

// Reasons that differ in names and numbers only are one, whatever the number of
// hosts.
func TestReasonsAreCountedByKind(t *testing.T) {
	all := make([][]reached, 4)
	for i := range all {
		for j := range all {
			r := reached{Fabric: "tcp", Why: fmt.Sprintf("not shm: BANYAN_NODE differs (%q, %q); tcp: what is left", fmt.Sprint(i), fmt.Sprint(j))}
			if j == 3 {
				r = reached{Fabric: none, Why: fmt.Sprintf("route from rank %d to rank 3: no fabric joins process %d and process 3: not tcp: neither may use it (BANYAN_FABRIC)", i, i)}
			}
			all[i] = append(all[i], r)
		}
	}
	require.Equal(t, `tcp: 9 ways, as 0 > 1: not shm: BANYAN_NODE differs ("0", "1"); tcp: what is left
none: 3 ways, as 0 > 3: route from rank 0 to rank 3: no fabric joins process 0 and process 3: not tcp: neither may use it (BANYAN_FABRIC)
`, reasons(all))
}

func TestRoutesTable(t *testing.T) {
	far := reached{Fabric: "tcp", Why: "not shm: different machines; tcp: what is left"}
	all := make([][]reached, widest+1)
	for i := range all {
		for j := range all {
			r := reached{Fabric: "shm", Why: "one boot"}
			if i/30 != j/30 {
				r = far
			}
			all[i] = append(all[i], r)
		}
	}
	got := routesTable(all, func(rank int) int { return rank / 30 })
	require.Equal(t, "# 33 ranks on 2 nodes\nshm: 876 ways\ntcp: 180 ways, as 0 > 30: "+far.Why+"\n", got)
	require.Contains(t, routesTable(all[:2], func(int) int { return 0 }), "     1     0   shm    -\n")
}

// The name of the fabric in a file of results is that which was used.
func TestResultsNameTheFabric(t *testing.T) {
	for _, args := range []string{"osu latency -m 8:8 -i 10 -x 1", "netpipe -u 8 --trial-time 1ms --trials 1 -o " + t.TempDir() + "/np.out"} {
		for fabric, want := range map[string]string{"": "shm", "unix": "unix", "tcp,shm": "shm", "sim": "sim"} {
			argv := append(strings.Fields(args), "--json", "-")
			if fabric != "" {
				argv = append(argv, "--fabric", fabric)
			}
			code, out, errs := ftbench(t, argv...)
			require.Zero(t, code, errs)
			var file struct{ Results struct{ Fabric string } }
			require.NoError(t, json.Unmarshal([]byte(out), &file))
			require.Equal(t, want, file.Results.Fabric, args)
		}
	}
}

func TestChecksOfFiles(t *testing.T) {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	none := fstest.MapFS{}
	require.Equal(t, warning, devices(none)[0].state, "nothing needs it")
	rdma := devices(fstest.MapFS{"sys/class/infiniband/mlx5_0/x": text("")})[0]
	require.Equal(t, warning, rdma.state)
	require.Contains(t, rdma.text, "mlx5_0")

	closed := kernelCopy(fstest.MapFS{"proc/sys/kernel/yama/ptrace_scope": text("3\n")})
	require.Equal(t, warning, closed.state)
	require.Contains(t, closed.cure, "ptrace_scope=1")
	require.Equal(t, ok, kernelCopy(fstest.MapFS{"proc/sys/kernel/yama/ptrace_scope": text("1\n")}).state)

	group := func(limit, used string) fstest.MapFS {
		return fstest.MapFS{
			"proc/self/cgroup":                     text("1:name=systemd:/\n0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max":         text("max\n"),
			"sys/fs/cgroup/a/memory.max":           text(limit),
			"sys/fs/cgroup/a/memory.current":       text(used),
			"sys/fs/cgroup/unrelated/x/memory.max": text("1"),
		}
	}
	require.Equal(t, finding{ok, "memory", "control group /a: 1 of 100 MiB in use", ""}, memory(group("104857600\n", "1048576\n")))
	require.Equal(t, warning, memory(group("104857600", "104000000")).state)
	require.Contains(t, memory(group("max", "1")).text, "no limit")
	require.Contains(t, memory(none).text, "no control groups")

	slow := processors(fstest.MapFS{"sys/devices/system/cpu/cpufreq/policy0/scaling_governor": text("powersave\n")})
	require.Equal(t, "governor", slow[len(slow)-1].what)
	require.Equal(t, 2, len(limits(none))-1, "open files, address space, memory")
}

// What the environment says of the detection of failures is found with its place.
func TestDoctorOfDetection(t *testing.T) {
	for environment, want := range map[string]string{
		"BANYAN_DETECT=off":                          `^warning +silence +nobody looks for it \(detect = off, BANYAN_DETECT\)`,
		"BANYAN_DETECT_TIMEOUT=7s":                   `^ok +silence +of 7s is death`,
		"BANYAN_DETECT_TIMEOUT=1":                    `^warning +silence +not known`,
		exits.Env + "=off":                           `^ok +agent +BANYAN_EXITS=off: not asked`,
		exits.Env + "=" + t.TempDir() + "/none.sock": `^warning +agent +.*none.sock.*: unset BANYAN_EXITS, or start the agent there`,
		exits.Env + "=quark":                         `^warning +agent +.*quark`,
	} {
		t.Run(environment, func(t *testing.T) {
			name, value, _ := strings.Cut(environment, "=")
			t.Setenv(name, value)
			var lines []string
			for _, f := range []finding{recorder(), silence()} {
				lines = append(lines, fmt.Sprintf("%s %s %s: %s", f.state, f.what, f.text, f.cure))
			}
			require.Regexp(t, "(?m)"+want, strings.Join(lines, "\n"))
		})
	}
}
