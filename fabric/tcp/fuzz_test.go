package tcp

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// For any networks that a user names, each address is used or not for a reason, an excluded one never,
// and one that is not named only if none are.
func FuzzNetworks(f *testing.F) {
	f.Add("lo,!127.0.0.2")
	f.Add("10.0.0.0/8,fd00::/8,!eth0")
	f.Add("0.0.0.0/0,fe80::1%lo,::ffff:1.2.3.4,!::1/129")
	f.Add("!,")
	have := []Choice{
		{Addr: netip.MustParseAddr("127.0.0.1"), Interface: "lo"},
		{Addr: netip.MustParseAddr("10.1.2.3"), Interface: "eth0"},
		{Addr: netip.MustParseAddr("fd00::1"), Interface: "eth0"},
	}
	f.Fuzz(func(t *testing.T, list string) {
		networks := strings.Split(list, ",")
		rules, err := parseRules(networks)
		if err != nil {
			require.ErrorContains(t, err, "tcp: ")
			_, err := Choose(networks)
			require.Error(t, err)
			return
		}
		require.Len(t, rules, len(networks))
		for _, c := range have {
			rules.judge(&c)
			require.NotEmpty(t, c.Why)
			named, excluded, positive := false, false, false
			for i := range rules {
				named = named || !rules[i].not && rules[i].fits(&c)
				excluded = excluded || rules[i].not && rules[i].fits(&c)
				positive = positive || !rules[i].not
			}
			require.Equal(t, !excluded && (named || !positive && !c.Addr.IsLoopback()), c.Used, "%v", c)
		}
	})
}
