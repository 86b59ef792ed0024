package job

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/ft"
)

// With any names of fabrics and networks, the option counts before the variable, and an empty one
// counts as none.
func FuzzFabrics(f *testing.F) {
	f.Add("shm,tcp", "eth0,!10.0.0.0/8", true)
	f.Add("", " ", false)
	f.Add("verbs", ",", false)
	f.Fuzz(func(t *testing.T, fabrics, networks string, byOption bool) {
		var o Options
		vars := map[string]string{fabricVariable: fabrics, networksVariable: networks}
		if byOption {
			o.Fabric, o.Networks = &fabrics, &networks
			vars = map[string]string{fabricVariable: "unix", networksVariable: "lo"}
		}
		getenv := func(name string) string { return vars[name] }
		allowed, err := o.allowed(getenv)
		if err == nil {
			require.NotZero(t, allowed)
			require.Zero(t, allowed&^route.All)
		} else {
			require.Equal(t, byOption, errors.Is(err, ft.ErrArgument))
		}
		if list := o.listed(getenv); list != nil {
			require.Equal(t, networks, strings.Join(list, ","))
		} else {
			require.Empty(t, strings.TrimSpace(networks))
		}
	})
}
