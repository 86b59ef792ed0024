package ranktest

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/netns"
)

// Namespaces reports whether this process may make network namespaces. It fails the test if not,
// unless BANYAN_NO_NETNS=1.
func Namespaces(t *testing.T) bool {
	err := netns.Check()
	if err != nil && os.Getenv("BANYAN_NO_NETNS") == "1" {
		t.Logf("not tested: %v", err)
		return false
	}
	require.NoError(t, err, "BANYAN_NO_NETNS=1 leaves this out")
	return true
}

// OnHosts runs a job with each rank on a host of its own, and passes each line of rank 0's standard
// output to do, which changes the network.
func OnHosts(t *testing.T, cfg netns.Config, role string, do func(net *netns.Net, word string) error, env ...string,
) (*launch.Result, string) {
	t.Helper()
	n := cfg.Hosts
	net, err := netns.Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, net.Close()) }()
	exe, err := os.Executable()
	require.NoError(t, err)
	var hosts []launch.Host
	number := make(map[string]int)
	for i := range n {
		number[net.Name(i)] = i
		hosts = append(hosts, launch.Host{Name: net.Name(i), Slots: 1, Env: []string{"BANYAN_NODE=" + net.Name(i)}})
	}
	words, out := io.Pipe()
	var reader sync.WaitGroup
	reader.Go(func() {
		for in := bufio.NewScanner(words); in.Scan(); {
			if err := do(net, strings.TrimSpace(in.Text())); err != nil {
				t.Errorf("%s: %v", in.Text(), err)
			}
		}
	})
	var errs bytes.Buffer
	res, err := launch.Run(t.Context(), launch.Spec{
		N: n, Argv: []string{exe}, Env: append(append(os.Environ(), RoleEnv+"="+role), env...), Hosts: hosts,
		Shell: func(host string, cmd *exec.Cmd) error { return net.Start(number[host], cmd) },
		Proxy: []string{exe, ProxyArg}, Stdout: out, Stderr: &errs,
	})
	require.NoError(t, err)
	require.NoError(t, out.Close())
	reader.Wait()
	return res, errs.String()
}
