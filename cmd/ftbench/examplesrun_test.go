package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// elsewhere are the examples that TestExamplesRun does not run, by the reason.
var elsewhere = map[string][]string{
	"it runs this test": {"make test      # every test, some ten minutes on two cores"},
	"TestFirstProgramOfTheGuide of examples runs it, in a module": {
		"go build -o squares . && ftbench run -n 4 -- ./squares",
	},
	"TestLaunchersSlurm runs it, in a cluster of its own: make test-launchers": {"srun --mpi=pmi2 -N2 -n4 ./ring"},
	"it needs two hosts with RDMA adapters; make test-verbs has one with a software device": {
		"ftbench run --hosts node1,node2 --fabric verbs -- ftbench osu latency",
		"ib_send_lat -d mlx5_0 -s 8 node1                           # of perftest, for comparison; the same without node1 there",
	},
	"TestJob of fabric/verbs/testbed runs them: make test-rdma-vm": {
		"CGO_ENABLED=1 go build -o bin/ftbench-verbs ./cmd/ftbench",
		"fabric/verbs/testbed/rdma-vm -- bin/ftbench-verbs run -n 2 --fabric verbs -- bin/ftbench-verbs osu latency -m 1:8",
	},
	"TestComparison of fabric/verbs/testbed runs it: make test-rdma-vm": {"ftbench compare --only verbs"},
	"it needs a cluster; TestLaunchersKubernetes has its pods as namespaces": {
		"kubectl create secret generic ring --from-file=secret=$HOME/.banyan-secret",
		"kubectl apply -f docs/kubernetes.yaml",
		"kubectl logs -f job/ring --all-containers --prefix",
	},
}

// ends are the exit codes of the examples that do not end with 0.
var ends = map[string]int{
	"ftbench run --hosts node1,nowhere -- hostname":                          1,       // there is no such host
	"ftbench run --hosts node1,node2 -n 3 -- hostname":                       1,       // too few slots
	"bin/ftbench run -n 4 -- bin/farm -kill":                                 128 + 9, // SIGKILL
	"go build -o bin/ ./examples/steps && bin/ftbench run -n 4 -- bin/steps": 1,       // a rank fails
}

// shorter are options added to the commands of examples, of which the longest beginning counts: the examples are
// measurements, and here only their ends are of interest. Of compare the group unauthenticated is left out: it ends
// with an error where the machine is too busy for a thousand connections a second.
var shorter = map[string]string{
	"osu":                    "-i 2 -x 0 --min-time 0s --max-time 100ms",
	"osu init":               "",
	"osu hello":              "",
	"netpipe":                "--trial-time 1us --trials 1",
	"match":                  "--rounds 1 --min-time 1us",
	"many":                   "--jobs 1 --repeats 1",
	"fault detect":           "--kills 2 --per-job 2 --settle 1ms",
	"fault silence":          "--rounds 1",
	"fault soak":             "--for 1s --timeout 30s --period 1s",
	"fault agree":            "--rounds 2 --calls 2",
	"fault shrink":           "--rounds 2 --calls 2",
	"fault revoke":           "--rounds 2",
	"fault rebalance":        "--rounds 1",
	"fault drill":            "--runs 1",
	"fault":                  "--sets 1 --ops 2",
	"sim":                    "--rounds 2",
	"sim paper-2011 --write": "",
	"paper":                  "--quick --ranks 4 --sets 1 --ops 2 --rounds 1",
	"compare":                "--max-time 1ms --sample 1ms --only latency,bw,aware,netpipe,match,startup,coll,crowd,tcp",
	"compare --only":         "--max-time 1ms --sample 1ms",
	"tune":                   "--quick --sample 1ms",
	"tour":                   "--min-time 1us",
}

// hours are options that make an example last for hours, in place of which shorter has others.
var hours = regexp.MustCompile(` --ranks 16,32,64\S* --sets 30 --ops 300`)

// slow are the examples that start many processes, or take long although they are shortened: only make test-long
// runs them.
var slow = regexp.MustCompile(strings.Join([]string{
	`^mpiexec`, `^make bench`, `^(?:sudo )?ftbench (compare|paper|tune|tour|match$|many$|many --ranks|fault (soak|silence|revoke))`, `ftbench fault \w+$`,
	`-n (16|32|64|128|400|512)\b`, `4,8,16`, `8192`, `000000`, `-n 8 --rounds`,
	`rotate`, `--tree binomial,knomial:4$`, `--size 8 `, `fault agree .*1024`, `--wait barrier`, `rss 512`,
	`--fabric hosts`, `runs 1 `, `-unauth`, `@2s`,
	`(?:bi)?bw\S* .*-[cm]`, `bw_fan_\w+ .*-c`, `netns-fault`, `mbw_mr -n 4`, `multi_lat -n`, `-t 4:4`, `-2 -i`, `-I -o`, `match --aware`,
	`(run|detect|osu \w+) -n 8`, `^ftbench doctor`, `--within A`, `docs man`,
}, "|"))

// innermost are the words of the command of ftbench that a line measures: that which its ftbench run starts.
func innermost(args string) []string {
	words := wordsOf(args)
	for inner := nested(words); inner != nil; inner = nested(words) {
		words = inner
	}
	return words
}

// shortened gives the line with options added to its command, before the shell's own words.
func (e example) shortened() string {
	longest, options := 0, ""
	command := strings.Join(innermost(e.args), " ") + " "
	for prefix, o := range shorter {
		if strings.HasPrefix(command, prefix+" ") && len(prefix) > longest {
			longest, options = len(prefix), o
		}
	}
	end := len(e.line)
	for _, at := range word.FindAllStringIndex(e.line, -1) {
		if strings.ContainsAny(e.line[at[0]:at[0]+1], "|>#&;<") {
			end = at[0]
			break
		}
	}
	return strings.TrimSpace(hours.ReplaceAllString(e.line[:end], "")) + " " + options + " " + e.line[end:]
}

// alike are the names of benchmarks whose help has the same examples. TestOsuPrograms and TestOsuWindows run each
// program of osu.
var alike = regexp.MustCompile(`(osu) \w+(?: -|$)|(fault) (?:barrier|bcast|reduce|allreduce|gather|scatter)\b`)

// kind is the same for examples that differ in numbers, in files or in such a name: make test runs the first of a
// kind.
func (e example) kind() string {
	words := strings.Fields(alike.ReplaceAllString(e.line, "$1$2 -"))
	return strings.Join(slices.DeleteFunc(words, func(w string) bool {
		return !strings.HasPrefix(w, "-") && strings.ContainsAny(w, "0123456789") || strings.HasPrefix(w, "results/")
	}), " ")
}

// privileged are the examples that make network or pid namespaces, or run in some.
var privileged = regexp.MustCompile(`--netns|--fabric hosts|--hosts 3 |\./wrapper|^sudo |ip netns`)

// The examples of the pages and of the help work: each is run by the shell, with options added that shorten it,
// and ends as it should. Those of a block are run in their order and in one directory.
func TestExamplesRun(t *testing.T) {
	long := os.Getenv("BANYAN_LONG") != ""
	all := examples(t)
	skipped := slices.Concat(slices.Collect(maps.Values(elsewhere))...)
	for _, line := range skipped {
		shown := slices.ContainsFunc(all, func(e example) bool { return e.line == line })
		require.True(t, shown, "no page has it any more: %s", line)
	}
	programs := examplePrograms(t)
	seen := map[string]bool{}
	place, dir, exports := "", "", ""
	for _, e := range all {
		if at := fmt.Sprint(e.page, e.block); at != place {
			place, dir, exports = at, "", ""
		}
		once := e.kind()
		if long {
			once = e.line
		}
		switch {
		case e.block < 0 && (e.page == "status.md" || !strings.Contains(e.line, " -- ./")): // parts of command lines
			continue
		case slices.Contains(skipped, e.line) || seen[once] || !long && slow.MatchString(e.line):
			continue
		case strings.HasPrefix(e.line, "export "):
			exports += e.line + "\n"
			continue
		}
		seen[once] = true
		if dir == "" {
			dir = exampleDir(t, programs)
		}
		t.Run(e.line, func(t *testing.T) { e.run(t, dir, exports) })
	}
}

// run runs an example in a directory.
func (e example) run(t *testing.T, dir, exports string) {
	if privileged.MatchString(e.line) && !namespaces(t) || serves.MatchString(e.line) && !mayHook(t) {
		return
	}
	for _, tool := range []string{"mpiexec.mpich", "jq", "man", "make"} {
		if _, err := exec.LookPath(tool); err != nil &&
			regexp.MustCompile(`(^|\| )`+tool+` `).MatchString(hydra.ReplaceAllString(e.line, "mpiexec.mpich ")) {
			t.Logf("NOT TESTED: %v", err)
			return
		}
	}
	// A job that hangs shows as one. The slowest, of 64 ranks that take turns, needs half a minute.
	ctx, end := context.WithTimeout(context.Background(), 5*time.Minute)
	defer end()
	line := strings.ReplaceAll(exports+e.shortened(), "29511", freePort(t))
	line = hydra.ReplaceAllString(line, "mpiexec.mpich ") // its name in Debian
	if serves.MatchString(e.line) {
		line = untilItListens(line)
	}
	if strings.HasPrefix(e.line, "make ") {
		line = "rm bin/ftbench\n" + line // it is built
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	if apart.MatchString(e.line) {
		cmd = exec.CommandContext(ctx, "unshare", "--mount", "--net", "sh", "-c", placesApart+line)
	}
	cmd.WaitDelay = time.Second
	cmd.Dir = dir
	tuning := func(v string) bool { return strings.HasPrefix(v, "BANYAN_TUNING=") }
	cmd.Env = append(slices.DeleteFunc(os.Environ(), tuning), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"),
		"HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_RUNTIME_DIR="+dir, "LD_LIBRARY_PATH=/usr/lib")
	cmd.Env = append(cmd.Env, goPlaces()...)
	out, err := cmd.CombinedOutput()
	require.NotNil(t, cmd.ProcessState, "%v", err)
	t.Logf("%v of processor time", cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	code := cmd.ProcessState.ExitCode()
	if code == exitMissed && bounded.MatchString(strings.Join(innermost(e.args), " ")) {
		code = 0 // so short a measurement may miss a bound
	}
	require.Equal(t, ends[e.line], code, "%s\n%s", cmd.Args[2], out)
	for _, line := range e.says {
		if programSays.MatchString(line) {
			require.Contains(t, string(out), line)
		}
	}
}

// hydra is the launcher of MPICH as the pages call it.
var hydra = regexp.MustCompile(`(?m)^mpiexec `)

// serves are the examples that serve until they are ended.
var serves = regexp.MustCompile(`^(?:sudo )?ftbench agent`)

// apart are the examples that set the machine, take places of the system's or use namespaces with certain names. They
// have places of their own, made by placesApart.
var apart = regexp.MustCompile(`^sudo |ip netns`)

const placesApart = `set -e
mount -t tmpfs none /run
mkdir /run/mine
cp -a /etc "$HOME/etc"
mount --bind "$HOME/etc" /etc
for n in n1 n2; do ip netns add $n; ip -n $n link set lo up; done
ip -n n1 link add v1 type veth peer name v2 netns n2
ip -n n1 addr add 10.96.0.1/24 dev v1
ip -n n2 addr add 10.96.0.2/24 dev v2
ip -n n1 link set v1 up
ip -n n2 link set v2 up
set +e
`

// untilItListens makes the shell end a server when that has printed its first line.
func untilItListens(line string) string {
	return "mkfifo said\n" + strings.TrimSpace(line) + " >said & server=$!\n" +
		"read first <said && kill $server && wait $server && echo \"$first\" | grep -q '^listening at '"
}

// goPlaces is the environment by which the go command finds its caches in another home directory.
var goPlaces = sync.OnceValue(func() (env []string) {
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		if out, err := exec.Command("go", "env", name).Output(); err == nil {
			env = append(env, name+"="+strings.TrimSpace(string(out)))
		}
	}
	return env
})

// bounded are the commands that judge their measurements.
var bounded = regexp.MustCompile(`^(compare|match|fault (rebalance|silence))\b`)

// programSays matches the output of the examples' programs, which is the same each time.
var programSays = regexp.MustCompile(`^(the token|1000 tasks|ten steps) `)

// freePort is a port without a listener.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// examplePrograms builds the programs that examples start, and returns their directory.
func examplePrograms(t *testing.T) string {
	dir := t.TempDir()
	out, err := exec.Command("go", "build", "-o", dir, "../../examples/ring", "../../examples/farm").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

// exampleDir is a directory with everything that the examples need: this repository, its ftbench in PATH, their
// programs, hosts that ssh reaches, and files.
func exampleDir(t *testing.T, programs string) string {
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	for link, to := range map[string]string{
		"bin/ftbench": self, "bin/farm": programs + "/farm", "farm": programs + "/farm", "ring": programs + "/ring",
		"program": programs + "/ring", "a.out": programs + "/ring",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	repository, err := filepath.Abs("../..")
	require.NoError(t, err)
	entries, err := os.ReadDir(repository)
	require.NoError(t, err)
	for _, e := range entries {
		name := e.Name()
		source := e.IsDir() || name == "Makefile" || slices.Contains([]string{".go", ".mod", ".sum"}, filepath.Ext(name))
		if source && name != "bin" && name != "results" && name != ".git" {
			require.NoError(t, os.Symlink(filepath.Join(repository, name), filepath.Join(dir, name)))
		}
	}
	for name, text := range map[string]string{
		"nodes":  "node1 slots=4\nnode2:4\n",
		"secret": strings.Repeat("s", 32),
		// Measurements of other libraries, in the format of NetPIPE.
		"np.openmpi": "1 6.5 0.0000012\n64 300.5 0.0000016\n", "np.tcp": "1 0.5 0.000016\n64 30.5 0.000016\n",
		"bin/sudo": "#!/bin/sh\nexec \"$@\"\n",
		"app":      "#!/bin/sh\nexec " + programs + "/ring\n",
		"wrapper":  "#!/bin/sh\n[ \"$PMI_RANK\" != 1 ] || exec unshare --fork --pid --mount-proc \"$@\"\nexec \"$@\"\n",
		// Every host is this one, but nowhere.
		"bin/ssh": "#!/bin/sh\nwhile getopts o:p:T o; do :; done; shift $((OPTIND-1))\nhost=$1; shift\n" +
			"[ $host != nowhere ] || { echo \"ssh: Could not resolve hostname nowhere\" >&2; exit 255; }\nexec sh -c \"$*\"\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	return dir
}
