package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/tcp"
)

// The environment variables of the options for the ranks of a job.
const (
	fabricEnv   = "BANYAN_FABRIC"
	networksEnv = "BANYAN_NETWORKS"
	verboseEnv  = "BANYAN_VERBOSE"
)

// fabricList is a list of fabrics, "" for that of the environment.
type fabricList string

// Validate implements kong's check of a flag.
func (l fabricList) Validate() error {
	if l == "" {
		return nil
	}
	_, err := route.ParseSet(string(l))
	return err
}

// crossesHosts reports whether ranks in different namespaces can reach each other.
func (l fabricList) crossesHosts() error {
	list, from := string(l), "--fabric"
	if list == "" {
		list, from = os.Getenv(fabricEnv), fabricEnv
	}
	if list == "" || slices.Contains(strings.Split(list, ","), "tcp") {
		return nil
	}
	return fmt.Errorf("%s=%s: hosts share neither memory nor sockets of the machine: tcp must be among the fabrics",
		from, list)
}

// simulator is the one name that is no fabric of a real job.
const simulator = "sim"

// anyFabric is a list of fabrics or the simulator.
type anyFabric string

// Validate implements kong's check of a flag.
func (f anyFabric) Validate() error {
	if f == simulator || f == "" {
		return nil
	}
	if _, err := route.ParseSet(string(f)); err != nil {
		return fmt.Errorf("%w; or sim alone", err)
	}
	return nil
}

// fabricFlags are those of benchmarks.
type fabricFlags struct {
	Fabric  anyFabric `placeholder:"LIST" help:"shm, verbs, unix, tcp, or several with commas: the fabrics that may be used, each pair of ranks takes the first that joins it. sim: simulated network, virtual time, all ranks in this process. Default: BANYAN_FABRIC, else all."`
	Verbose bool      `help:"Print the fabric of each peer and the reason."`
}

// simulated reports whether no real job is wanted.
func (f *fabricFlags) simulated() bool { return f.Fabric == simulator }

// options are the library's options for the given flags.
func (f *fabricFlags) options() (opts []banyan.Option) {
	if f.Verbose { // before Init reads it
		os.Setenv(verboseEnv, "1")
	}
	if f.Fabric != "" && !f.simulated() {
		opts = append(opts, banyan.WithFabrics(string(f.Fabric)))
	}
	return opts
}

// used names the fabrics by which rank 0 has measured, for the files of results: in a job those to
// all other ranks. It connects to ranks that have no connection yet.
func (f *fabricFlags) used(w *banyan.World) (string, error) {
	if f.simulated() {
		return simulator, nil
	}
	var names []string
	for rank := range w.Comm().Size() {
		if rank == w.Comm().Rank() {
			continue
		}
		r, err := w.Route(rank)
		if err != nil {
			return "", err
		}
		if !slices.Contains(names, r.Fabric) {
			names = append(names, r.Fabric)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ","), nil
}

// settle adds the variables of the given flags to an environment; nil without flags.
func (c *runFabrics) settle(environ []string) []string {
	n := len(environ)
	if c.Fabric != "" {
		environ = append(environ, fabricEnv+"="+string(c.Fabric))
	}
	if c.Networks != "" {
		environ = append(environ, networksEnv+"="+c.Networks)
	}
	if c.Verbose {
		environ = append(environ, verboseEnv+"=1")
	}
	if len(environ) == n {
		return nil
	}
	return environ
}

// local reports whether all ranks run on the machine of this process, so that its interfaces are
// theirs.
func (c *runCmd) local() bool { return c.Netns == 0 && c.Hosts == nil && c.Hostfile == "" }

// validateNetworks finds networks that do not exist here: if all ranks share memory none of them
// would ever check. On other hosts the ranks report it themselves.
func (c *runCmd) validateNetworks() error {
	if c.Networks == "" || !c.local() {
		return nil
	}
	if _, err := tcp.Choose(strings.Split(c.Networks, ",")); err != nil {
		return fmt.Errorf("--networks=%s: %w", c.Networks, err)
	}
	return nil
}

// runFabrics are the flags of run that concern fabrics.
type runFabrics struct {
	Fabric   fabricList `placeholder:"LIST" help:"The fabrics that ranks may use: shm, verbs, unix, tcp, or several with commas; each pair takes the first that joins it. Default: all (BANYAN_FABRIC)."`
	Networks string     `placeholder:"LIST" help:"Addresses at which other machines reach the ranks by TCP: interfaces and networks with commas, ! before those to exclude, as eth0,!10.1.0.0/16. Default: all that are up (BANYAN_NETWORKS)."`
	Verbose  bool       `help:"Each rank prints the fabric to each peer and the reason (BANYAN_VERBOSE=1)."`
}
