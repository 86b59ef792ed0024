package tcp

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// interfacesAfter is a machine whose second interface comes up after so many looks.
func interfacesAfter(looks int, asked *int) func([]string) ([]Choice, error) {
	lo := Choice{Addr: netip.MustParseAddr("127.0.0.1"), Interface: "lo"}
	eth := Choice{Addr: netip.MustParseAddr("10.0.0.1"), Interface: "eth0", Used: true}
	return func(networks []string) ([]Choice, error) {
		if *asked++; *asked > looks {
			return []Choice{eth, lo}, nil
		}
		if len(networks) > 0 {
			return nil, errors.New("no interface eth0")
		}
		return []Choice{lo}, nil
	}
}

func TestAwaitNetworksThatComeLate(t *testing.T) {
	for _, networks := range [][]string{nil, {"eth0"}} {
		asked := 0
		require.NoError(t, awaitNetworks(t.Context(), networks, time.Hour, interfacesAfter(3, &asked)))
		require.Equal(t, 4, asked)
	}
}

func TestAwaitNetworksEnds(t *testing.T) {
	never, asked := 1<<30, 0
	require.NoError(t, awaitNetworks(t.Context(), nil, time.Millisecond, interfacesAfter(never, &asked)), "at its limit")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.ErrUnsupported)
	require.ErrorIs(t, awaitNetworks(ctx, nil, time.Hour, interfacesAfter(never, &asked)), errors.ErrUnsupported)
}

// Loopback that is named serves, and a name that is no network is not waited for.
func TestNetworksThatAreNotLate(t *testing.T) {
	named := func([]string) ([]Choice, error) {
		return []Choice{{Addr: netip.MustParseAddr("127.0.0.1"), Interface: "lo", Used: true}}, nil
	}
	require.False(t, late([]string{"lo"}, named))
	require.False(t, Late([]string{"10.0.0.0/99"}))
}
