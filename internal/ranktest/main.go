package ranktest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch/hosts"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// Variables that configure a rank. RoleEnv names its role, the others set options of Init.
const (
	RoleEnv    = "BANYAN_TEST_ROLE"
	EagerEnv   = "BANYAN_TEST_EAGER"   // a number of bytes
	NoCopyEnv  = "BANYAN_TEST_NO_COPY" // any value: no copies by the kernel
	UnawareEnv = "BANYAN_TEST_UNAWARE" // any value
	AsyncEnv   = "BANYAN_TEST_ASYNC"   // any value
)

// Variables for the roles themselves.
const (
	FIFOEnv = "BANYAN_TEST_FIFO" // a path that the test and its ranks share
	SeedEnv = "BANYAN_TEST_SEED" // the number from which all ranks of a job draw
)

// Variables that differ between ranks: lists with one word per rank. So ranks on one machine are on
// several nodes, or may use different fabrics.
const (
	NodesEnv   = "BANYAN_TEST_NODES"
	FabricsEnv = "BANYAN_TEST_FABRICS"
)

// ProxyArg makes the test binary the launcher's proxy on a host.
const ProxyArg = "proxy"

// Roles are the bodies of ranks, by name. A role runs between Init and Finalize.
type Roles map[string]func(*banyan.World) error

// Programs are whole lives of ranks, by name: they call Init themselves, or do not.
type Programs map[string]func() error

// Main runs the tests, or the role or program that the environment names.
func Main(m *testing.M, roles Roles, programs Programs) {
	if len(os.Args) == 2 && os.Args[1] == ProxyArg {
		exitOn("proxy", hosts.Proxy(os.Stdin, os.Stdout, nil))
		return
	}
	name := os.Getenv(RoleEnv)
	if name == "" {
		os.Setenv("BANYAN_TUNING", "none") // the tests are of the library, not of this machine's settings
		os.Setenv("BANYAN_EXITS", "off")   // nor of an agent that may run on it
		os.Exit(m.Run())
	}
	if program, ok := programs[name]; ok {
		exitOn(name, program())
		return
	}
	role, ok := roles[name]
	if !ok {
		exitOn(name, fmt.Errorf("no such role"))
	}
	exitOn(name, runRole(role))
}

func exitOn(name string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(3)
	}
}

// runRole leaves a failed role's world open: for the other ranks this rank has failed.
func runRole(role func(*banyan.World) error) error {
	if err := Place(); err != nil {
		return err
	}
	w, err := banyan.Init(options()...)
	if err != nil {
		return err
	}
	if err := role(w); err != nil {
		return err
	}
	return w.Finalize()
}

func options() (opts []banyan.Option) {
	if n, err := strconv.Atoi(os.Getenv(EagerEnv)); err == nil {
		opts = append(opts, banyan.WithEagerLimit(n))
	}
	if os.Getenv(NoCopyEnv) != "" {
		opts = append(opts, banyan.WithKernelCopy(false))
	}
	if os.Getenv(UnawareEnv) != "" {
		opts = append(opts, banyan.WithAware(false), banyan.WithDebug(false)) // debug needs the aware engine
	}
	if os.Getenv(AsyncEnv) != "" {
		opts = append(opts, banyan.WithAsyncProgress(true))
	}
	return opts
}

// Debugs reports whether the ranks of this environment check their calls (banyan.WithDebug), which costs allocations
// and bytes.
func Debugs() bool {
	s, err := settings.Load(settings.Here())
	return err == nil && s.On(settings.Debug) && os.Getenv(UnawareEnv) == ""
}

// Allocations is how many allocations a number of messages, sends and receives alike, may cost: none, but under debug.
// Then each is described with its place, entered in a list, copied and wrapped.
func Allocations(messages int) uint64 {
	if Debugs() {
		return 20 * uint64(messages)
	}
	return 0
}

// Nodes puts each rank on the node of its word, words separated by semicolons.
func Nodes(words string) string { return NodesEnv + "=" + words }

// Fabrics lets each rank use the fabrics of its word, words separated by semicolons.
func Fabrics(words string) string { return FabricsEnv + "=" + words }

// Place sets the variables that Init reads to this rank's words of [Nodes] and [Fabrics].
func Place() error {
	for list, name := range map[string]string{NodesEnv: "BANYAN_NODE", FabricsEnv: "BANYAN_FABRIC"} {
		if words := strings.Split(os.Getenv(list), ";"); len(words) > 1 {
			rank, err := strconv.Atoi(os.Getenv("PMI_RANK"))
			if err != nil {
				return err
			}
			os.Setenv(name, words[rank])
		}
	}
	return nil
}

// PerRank splits the list in a variable of n ranks; without a list each rank has the word all.
func PerRank(variable string, n int, all string) []string {
	words := strings.Split(os.Getenv(variable), ";")
	if len(words) > 1 {
		return words[:n]
	}
	words = make([]string, n)
	for i := range words {
		words[i] = all
	}
	return words
}

// JobSeed is the number from which the ranks of this job draw.
func JobSeed() (uint64, error) { return strconv.ParseUint(os.Getenv(SeedEnv), 10, 64) }
