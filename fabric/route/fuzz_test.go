package route

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A boot id is a UUID and nothing else: two machines never count as one.
func FuzzBoot(f *testing.F) {
	f.Add("0f7b3a1c-5d2e-4c1b-9a6f-3e2d1c0b9a88\n")
	f.Add("0f7b3a1c5d2e4c1b9a6f3e2d1c0b9a88")
	f.Add("0f7b3a1c-5d2e-4c1b-9a6f-3e2d1c0b9a8877")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		var n Node
		if err := n.parseBoot(text); err != nil {
			require.ErrorContains(t, err, "UUID")
			return
		}
		digits := strings.ReplaceAll(strings.TrimSpace(text), "-", "")
		require.Equal(t, strings.ToLower(digits), hex.EncodeToString(n.Boot[:]))
	})
}

// The capabilities are the number behind CapEff, or an error.
func FuzzCaps(f *testing.F) {
	f.Add("Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n")
	f.Add("CapEff:\t\n")
	f.Add("CapEff:\t1ffffffffffffffff\n")
	f.Fuzz(func(t *testing.T, status string) {
		var n Node
		if n.parseCaps(status) != nil {
			return
		}
		_, value, _ := strings.Cut("\n"+status, "\nCapEff:")
		value, _, _ = strings.Cut(value, "\n")
		want := strings.TrimLeft(strings.ToLower(strings.TrimSpace(value)), "0")
		require.Equal(t, want, strings.TrimLeft(fmt.Sprintf("%x", n.Caps), "0"))
	})
}

// A list of fabrics, as of BANYAN_FABRIC, holds known fabrics, and is written as it is read.
func FuzzParseSet(f *testing.F) {
	f.Add("shm,unix,tcp")
	f.Add(" TCP ,shm")
	f.Add(",")
	f.Fuzz(func(t *testing.T, list string) {
		s, err := ParseSet(list)
		if err != nil {
			return
		}
		require.NotZero(t, s)
		require.Zero(t, s&^All)
		again, err := ParseSet(s.String())
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}
