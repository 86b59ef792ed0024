package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each rank has one line for each peer that it reaches by a socket, with the addresses and the
// reasons against faster fabrics if this side connected, and names all by their ranks.
func TestVerboseHasALineAPair(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	hosts := [][]string{{"--fabric", "tcp"}, {"--fabric", "unix"}, {}}
	if namespaces(t) {
		hosts = append(hosts, []string{"--netns", "3"})
	}
	for _, where := range hosts {
		args := append([]string{"run", "-n", "3", "--verbose"}, where...)
		code, _, errs := ftbench(t, append(args, "--", self, "doctor")...)
		require.Zero(t, code, errs)
		require.NotContains(t, errs, "process ", where)
		var lines int
		for line := range strings.Lines(errs) {
			if !strings.Contains(line, ": connected") {
				continue
			}
			lines++
			require.Regexp(t, `^banyan: rank \d: peer \d: (tcp|unix|shm): connected`, line)
			if len(where) > 0 && where[0] == "--netns" {
				require.Regexp(t, `, path tcp \S+:\d+ > \S+:\d+(: not shm: BANYAN_NODE differs|$)|connected by the peer`, line)
			}
		}
		require.Equal(t, 6, lines, "%v: %s", where, errs)
	}
}
