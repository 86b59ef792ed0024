package verbs

import (
	"net/netip"
	"os"
	"path/filepath"
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

// A port of iWARP has the address of the interface whose hardware address is its GID.
func TestChooseIWARP(t *testing.T) {
	defer func(f func([]byte) (string, []netip.Addr)) { interfaceOf = f }(interfaceOf)
	one, two := netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.78.0.1")
	all := []netip.Addr{one, two}
	interfaceOf = func(hardware []byte) (string, []netip.Addr) {
		require.Equal(t, []byte{0x52, 0x54, 0, 0x77, 0, 1}, hardware)
		return "eth1", all
	}
	root := t.TempDir()
	adapter(t, root, "4: ACTIVE", "Ethernet", local, "IB/RoCE v1")
	for name, text := range map[string]string{"node_type": "4: RNIC", "ports/1/gids/0": "5254:0077:0001:0000:0000:0000:0000:0000"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, "rxe0", name), []byte(text+"\n"), 0o600))
	}
	p, err := choose(root, "", func(ifname string, a netip.Addr) bool { return ifname == "eth1" && a == two })
	require.NoError(t, err)
	require.Equal(t, []Port{{Device: "rxe0", Number: 1, Address: two, Kind: IWARP, Interface: "eth1"}}, p)
	require.Equal(t, "rxe0 port 1 (iWARP, 10.78.0.1)", p[0].String())
	_, err = choose(root, "", func(string, netip.Addr) bool { return false })
	require.ErrorContains(t, err, notOfNetworks)
	all = nil
	_, err = choose(root, "", nil)
	require.ErrorContains(t, err, "its network interface has no IP address")
}
