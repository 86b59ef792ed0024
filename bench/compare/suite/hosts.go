package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/banyan-hpc/banyan/bench/compare"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/internal/netns"
)

// The jobs of group hosts: so many ranks on each of so many network namespaces.
const (
	ranksPerHost = 8
	mostHosts    = 4
)

var hostCounts = []int{2, mostHosts}

// jobsOn names the jobs of so many hosts.
func jobsOn(hosts int) string { return fmt.Sprintf("%s/%d", groupHosts, hosts) }

// addHosts makes network namespaces for Open MPI. Banyan's launcher makes as many of the same kind for each job.
func (c *Comparison) addHosts(ctx context.Context) (err error) {
	if c.net, err = netns.Open(netns.Config{Hosts: mostHosts}); err != nil {
		return fmt.Errorf("group %s: %w", groupHosts, err)
	}
	var hosts []peers.Host
	for i := range mostHosts {
		hosts = append(hosts, peers.Host{Name: c.net.Name(i), Addr: c.net.Addr(i)})
	}
	if c.agent, err = peers.Scratch("agent"); err != nil {
		return err
	}
	for _, n := range hostCounts {
		runs := []jobRun{{ours, func(ranks int, args []string) peers.Command {
			argv := []string{c.self, "run", "-n", strconv.Itoa(ranks), "--netns", strconv.Itoa(n), "--on-failure", "abort", "--", c.self}
			return peers.Command{Argv: slices.Concat(argv, collectiveRank, args), CPU: -1}
		}}}
		command, err := peers.OpenMPI.CollectivesOn(ctx, hosts[:n], c.agent)
		if err := c.present(ctx, collectiveName(peers.OpenMPI), err); err != nil {
			return err
		}
		if command != nil {
			runs = append(runs, jobRun{openmpi, command})
		}
		for _, run := range runs {
			c.commands[jobsOn(n)+" "+run.name] = commandLine(run.command(n*ranksPerHost, jobRanks[collectives].example))
		}
		c.jobs[jobsOn(n)] = runs
	}
	return nil
}

// closeHosts removes the namespaces.
func (c *Comparison) closeHosts() error {
	if c.net == nil {
		return nil
	}
	return errors.Join(os.RemoveAll(c.agent), c.net.Close())
}

// hostCollectives are collectives over several machines: ranks of one share memory, and TCP joins the machines.
func (c *Comparison) hostCollectives() (out []*compare.Sweep) {
	ops := []peers.Collective{{Op: "barrier"}, {Op: "bcast", Bytes: 1024}, {Op: "allreduce", Bytes: 8}}
	bounds := func(peers.Collective) []compare.Bound {
		return []compare.Bound{{ID: "B22-7", Over: openmpi, Ratio: compare.OfTimes, Limit: 0.5}}
	}
	for _, n := range hostCounts {
		title := fmt.Sprintf("collectives of %d ranks on each of %d hosts, mean over calls and ranks", ranksPerHost, n)
		ranks := n * ranksPerHost
		out = append(out, jobSweep(jobsOn(n), title, c.jobs[jobsOn(n)], ops, bounds, c.timed(ranks, ops)))
	}
	return out
}
