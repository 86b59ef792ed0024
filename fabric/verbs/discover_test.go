package verbs

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

const roce, local = "0000:0000:0000:0000:0000:ffff:0a4d:0001", "fe80:0000:0000:0000:5054:00ff:fe77:0000"

func TestChoose(t *testing.T) {
	no := func(string, netip.Addr) bool { return false }
	for name, tc := range map[string]struct {
		state, layer, gid, kind string
		usable                  func(string, netip.Addr) bool
		want                    string // the port, or the text of the error
	}{
		"RoCE":       {"4: ACTIVE", "Ethernet", roce, "RoCE v2", nil, "rxe0 port 1 (RoCE v2, 10.77.0.1)"},
		"InfiniBand": {"4: ACTIVE", "InfiniBand", local, "", nil, "rxe0 port 1 (InfiniBand, fe80::5054:ff:fe77:0)"},
		"down":       {"1: DOWN", "Ethernet", roce, "RoCE v2", nil, `rxe0 port 1: its state is "1: DOWN": connect the cable`},
		"version 1":  {"4: ACTIVE", "Ethernet", roce, "IB/RoCE v1", nil, "no address for RoCE v2: give its interface an IP address"},
		"link local": {"4: ACTIVE", "Ethernet", local, "RoCE v2", nil, "no address for RoCE v2"},
		"networks":   {"4: ACTIVE", "Ethernet", roce, "RoCE v2", no, "not of the networks that may be used"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			adapter(t, root, tc.state, tc.layer, tc.gid, tc.kind)
			p, err := choose(root, "", tc.usable)
			if err != nil {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.Len(t, p, 1)
			require.Equal(t, tc.want, p[0].String())
			_, err = choose(root, "mlx5_0", tc.usable)
			require.ErrorContains(t, err, `there is no adapter "mlx5_0": there are rxe0`)
		})
	}
	_, err := choose(t.TempDir(), "", nil)
	require.ErrorIs(t, err, ErrNone)
}
