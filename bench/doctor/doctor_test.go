package doctor

import (
	"fmt"
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

func TestMachineOnAFullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	_, err = Machine(full, 0, nil)
	require.ErrorIs(t, err, syscall.ENOSPC)
}

// The report contains the timeout of silence, and the evidence of deaths on each node.
func TestDeathsOfAJob(t *testing.T) {
	on := banyan.Detection{On: true, Period: 2e9, Timeout: 12e9, Longer: 4, Partition: "majority", Evidence: "pidfd"}
	words, off := on, banyan.Detection{Evidence: "connection"}
	words.Evidence = "robust words"
	node := func(rank int) int { return rank }
	require.Equal(t, `# failure detection
silence: of 12s is death (detect.timeout), heartbeats each 2s (detect.period; 4 times the defaults as ranks share cores), partition rule majority (detect.partition)
nodes 0 to 1: deaths are told of first by pidfd
node 3: deaths are told of first by robust words
between nodes: by connection
`, deaths([]*rankReport{{Detection: on}, {Detection: on}, nil, {Detection: words}}, node))
	text := deaths([]*rankReport{{Detection: off}, {Detection: on}}, func(int) int { return 0 })
	require.Contains(t, text, "silence: not detected (detect is off)")
	require.Contains(t, text, "warning: rank 1 has other values than rank 0 (on true, timeout 12s, ")
	require.Contains(t, text, "node 0: deaths are told of first by connection, by other ranks by pidfd\n")
	require.Contains(t, deaths([]*rankReport{{Detection: off}}, node), "there is no rank to observe")
}

// Sockets are listed once a pair; ranks that have refused or healed connections are named.
func TestSocketsTable(t *testing.T) {
	all := make([]*rankReport, 3)
	require.Empty(t, sockets(all))
	all[0] = &rankReport{Links: []link{{Fabric: "self"}, {Fabric: "unix", Detail: "unix"},
		{Fabric: "tcp", Detail: "tcp a > b, eth0"}}}
	all[1] = &rankReport{Links: []link{{Fabric: "unix", Detail: "unix"}, {Fabric: "self"}, {Fabric: "shm"}}}
	all[1].Counters = banyan.Counters{Admitted: 1, Healed: 2, Refused: banyan.Refused{WrongSecret: 3, TooMany: 1}}
	require.Equal(t, `# sockets
     0 > 1: unix
     0 > 2: tcp a > b, eth0
connections: admitted 1, healed 2, refused 4 (3 with a wrong secret, 1 too many at once)
rank 1: admitted 1, healed 2, refused 4 (3 with a wrong secret, 1 too many at once)
`, sockets(all))
	all[0].Links = slices.Repeat([]link{{Detail: "unix"}}, socketLines+2)
	require.Contains(t, sockets(all), "and 2 pairs more\n")
}

func TestDetailsNameTheInterface(t *testing.T) {
	mine := interfaces()
	require.Equal(t, "lo", mine[netip.MustParseAddr("127.0.0.1")])
	detail := "tcp 127.0.0.1:1 > 127.0.0.1:2"
	require.Equal(t, detail+", lo", details(banyan.Route{Fabric: "tcp", Detail: detail}, mine))
	require.Equal(t, detail+", an interface that has gone", details(banyan.Route{Fabric: "tcp", Detail: detail}, nil))
	require.Equal(t, "unix", details(banyan.Route{Fabric: "unix", Detail: "unix"}, mine))
	require.Equal(t, "tcp, not connected yet",
		details(banyan.Route{Fabric: "tcp", Detail: "tcp, not connected yet"}, mine))
	require.Empty(t, details(banyan.Route{Fabric: "shm"}, mine))
}

// Reasons that differ in names and numbers only are one, for any number of hosts.
func TestReasonsAreCountedByKind(t *testing.T) {
	all := make([][]link, 4)
	for i := range all {
		for j := range all {
			r := link{Fabric: "tcp", Why: fmt.Sprintf("not shm: BANYAN_NODE differs (%q, %q); tcp: what is left",
				fmt.Sprint(i), fmt.Sprint(j))}
			if j == 3 {
				r = link{Fabric: none, Why: fmt.Sprintf("route from rank %d to rank 3: no fabric joins process %d "+
					"and process 3: not tcp: neither may use it (BANYAN_FABRIC)", i, i)}
			}
			all[i] = append(all[i], r)
		}
	}
	require.Equal(t, `tcp: 9 ways, as 0 > 1: not shm: BANYAN_NODE differs ("0", "1"); tcp: what is left
none: 3 ways, as 0 > 3: route from rank 0 to rank 3: no fabric joins process 0 and process 3: not tcp: neither may use it (BANYAN_FABRIC)
`, reasons(all))
}

func TestRoutesTable(t *testing.T) {
	far := link{Fabric: "tcp", Why: "not shm: different machines; tcp: what is left"}
	all := make([][]link, widest+1)
	for i := range all {
		for j := range all {
			r := link{Fabric: "shm", Why: "one boot"}
			if i/30 != j/30 {
				r = far
			}
			all[i] = append(all[i], r)
		}
	}
	got := routesTable(all, func(rank int) int { return rank / 30 })
	require.Equal(t, "# 33 ranks on 2 nodes\nshm: 876 ways\ntcp: 180 ways, as 0 > 30: "+far.Why+"\n", got)
	require.Contains(t, routesTable(all[:2], func(int) int { return 0 }), "     1     0   shm     -\n")
}

func TestChecksOfFiles(t *testing.T) {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	none := fstest.MapFS{}
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
	require.Equal(t, finding{ok, "memory", "control group /a: 1 of 100 MiB in use", ""},
		memory(group("104857600\n", "1048576\n")))
	require.Equal(t, warning, memory(group("104857600", "104000000")).state)
	require.Contains(t, memory(group("max", "1")).text, "no limit")
	require.Contains(t, memory(none).text, "no control groups")

	slow := processors(fstest.MapFS{"sys/devices/system/cpu/cpufreq/policy0/scaling_governor": text("powersave\n")})
	require.Equal(t, "governor", slow[len(slow)-1].what)
	require.Equal(t, 2, len(limits(none))-1, "open files, address space, memory")
}

// Variables that affect the detection of failures are reported with their source.
func TestDoctorOfDetection(t *testing.T) {
	for environment, want := range map[string]string{
		"BANYAN_DETECT=off":                          `^warning +silence +not detected \(detect = off, BANYAN_DETECT\)`,
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
