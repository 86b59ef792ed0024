package hosts

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseHosts(t *testing.T) {
	for _, c := range []struct {
		list string
		want []Host
	}{
		{"a", []Host{{Name: "a", Slots: 1}}},
		{"a:4, b", []Host{{Name: "a", Slots: 4}, {Name: "b", Slots: 1}}},
		{"a:4,b:1,a:2", []Host{{Name: "a", Slots: 6}, {Name: "b", Slots: 1}}},
		{"me@node-1.cluster:2", []Host{{Name: "me@node-1.cluster", Slots: 2}}},
		{"fe80::1%eth0,[fd00::7]:3,[fd00::8]", []Host{{Name: "fe80::1%eth0", Slots: 1}, {Name: "fd00::7", Slots: 3}, {Name: "fd00::8", Slots: 1}}},
	} {
		got, err := Parse(c.list)
		require.NoError(t, err, c.list)
		require.Equal(t, c.want, got, c.list)
	}
	for list, want := range map[string]string{
		"":                 "an empty name",
		"a,,b":             "an empty name",
		":4":               "an empty name",
		"a:":               `"" slots: a number in 1…1048576`,
		"a:0":              `"0" slots`,
		"a:x":              `"x" slots`,
		"a:-1":             `"-1" slots`,
		"a:1048577":        `"1048577" slots`,
		"-oProxyCommand=x": "take it for an option",
		"a b":              `it contains " "`,
		"a;rm":             `it contains ";"`,
		"$(x)":             `it contains "$"`,
		"[::1":             "no closing bracket",
		"[::1]4":           `"4" after the bracket`,
	} {
		_, err := Parse(list)
		require.ErrorContains(t, err, want, "%q", list)
	}
}

func TestReadHostfile(t *testing.T) {
	hosts, err := ReadFile(strings.NewReader("# the cluster\na slots=4\n\n  b:2   # two\nc\na\r\n"), "h")
	require.NoError(t, err)
	require.Equal(t, []Host{{Name: "a", Slots: 5}, {Name: "b", Slots: 2}, {Name: "c", Slots: 1}}, hosts)
	for text, want := range map[string]string{
		"":                         "h names no host",
		"# nothing\n":              "h names no host",
		"a\nb slots=no":            `h:2: "no" slots`,
		"a slots=1 max_slots=2":    `h:1: "slots=1 max_slots=2" after the host: only slots=N`,
		"a ifhn=b":                 `h:1: "ifhn=b" after the host`,
		"a:2 slots=2":              `h:1: "a:2 slots=2" has its slots twice`,
		"[::1]:2 slots=2":          "has its slots twice",
		"-a":                       "h:1: \"-a\" is no name of a host",
		strings.Repeat("x", 1<<17): "h: bufio.Scanner: token too long",
	} {
		_, err := ReadFile(strings.NewReader(text), "h")
		require.ErrorContains(t, err, want, "%.40q", text)
	}
}

func TestDeal(t *testing.T) {
	hosts := []Host{{Name: "a", Slots: 4}, {Name: "b", Slots: 2}, {Name: "c", Slots: 2}}
	counts := func(n int) (all []int) {
		shares, err := Assign(hosts, n, true)
		require.NoError(t, err)
		next := 0
		for _, s := range shares {
			require.Equal(t, next, s.first)
			next += s.Count
			all = append(all, s.Count)
			for r := range s.Count {
				require.Equal(t, s.Name, NameOf(shares, s.first+r))
			}
		}
		require.Equal(t, n, next)
		return all
	}
	require.Equal(t, []int{1}, counts(1))
	require.Equal(t, []int{4, 1}, counts(5))
	require.Equal(t, []int{4, 2, 2}, counts(8))
	require.Equal(t, []int{8, 2, 2}, counts(12))
	require.Equal(t, []int{12, 6, 5}, counts(23))
	_, err := Assign(hosts, 9, false)
	require.ErrorContains(t, err, "9 ranks for 8 slots: give the hosts more slots (host:3, or slots=3 in a file), or share the slots with --oversubscribe")
	_, err = Assign([]Host{{Name: "a", Slots: 1}, {Name: "a", Slots: 1}}, 1, false)
	require.ErrorContains(t, err, "named twice")
	_, err = Assign([]Host{{Name: "-a", Slots: 1}}, 1, false)
	require.Error(t, err)
	_, err = Assign([]Host{{Name: "a"}}, 1, false)
	require.ErrorContains(t, err, "0 slots")
	require.Equal(t, "", NameOf(nil, 3))
}

func TestMappingOfHosts(t *testing.T) {
	for n, want := range map[int]string{
		3: "(vector,(0,1,3))", 8: "(vector,(0,1,4),(1,2,2))", 7: "(vector,(0,1,4),(1,1,2),(2,1,1))",
	} {
		shares, err := Assign([]Host{{Name: "a", Slots: 4}, {Name: "b", Slots: 2}, {Name: "c", Slots: 2}}, n, false)
		require.NoError(t, err)
		m := Mapping(shares)
		require.Equal(t, want, m.String())
		for r := range n {
			require.Equal(t, NameOf(shares, r), shares[m.NodeOf(r)].Name)
		}
	}
	var hosts []Host
	for i := range 300 {
		hosts = append(hosts, Host{Name: string(rune('a'+i%26)) + strings.Repeat("x", i), Slots: 1 + i%2})
	}
	shares, err := Assign(hosts, Slots(hosts), false)
	require.NoError(t, err)
	require.Empty(t, Mapping(shares), "it would not fit a value")
}

func TestParseShell(t *testing.T) {
	for line, want := range map[string][]string{
		"ip netns exec {host}":                 {"ip", "netns", "exec", "n1", "x", "proxy"},
		"ssh":                                  {"ssh", "n1", "x", "proxy"},
		`ssh -o "ProxyCommand=nc %h 1" {host}`: {"ssh", "-o", "ProxyCommand=nc %h 1", "n1", "x", "proxy"},
		`a\ b '{host}'.c '' "\""`:              {"a b", "n1.c", "", `"`, "x", "proxy"},
	} {
		words, err := splitWords(line)
		require.NoError(t, err)
		words[0] = "env" // which is there
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, "'"+w+"'")
		}
		shell, err := ParseShell(strings.Join(quoted, " "))
		require.NoError(t, err)
		cmd := &exec.Cmd{Path: "x", Args: []string{"x", "proxy"}}
		_ = shell("n1", cmd) // env may not find the program
		_ = cmd.Wait()
		require.Equal(t, want[1:], cmd.Args[1:], line)
	}
	for line, want := range map[string]string{"": "empty command", "  ": "empty command", "ssh 'x": "is open", `ssh \`: "is open"} {
		_, err := ParseShell(line)
		require.ErrorContains(t, err, want)
	}
	shell, err := ParseShell("no-such-shell {host}")
	require.NoError(t, err)
	err = shell("a", &exec.Cmd{Args: []string{"x"}})
	require.ErrorContains(t, err, "no-such-shell")
}
