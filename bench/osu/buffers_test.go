package osu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// With multiple buffers each message of a window has its own, and each benchmark of pairs measures with them.
func TestMultipleBuffers(t *testing.T) {
	for _, b := range All {
		if b.Collective || b.OneSided || b.Threaded {
			continue
		}
		o := small(b)
		o.Multiple, o.Validate, o.Iterations, o.IterationsLarge = true, true, 3, 2
		for _, p := range points(t, b.Name, 2, o) {
			require.Zero(t, p.Errors, b.Name)
		}
	}
	inSim(t, 2, func(w *banyan.World) error {
		p, err := newPair(w, 1, &Options{Max: 64, Window: 4, Multiple: true})
		require.NoError(t, err)
		p.renew(16)
		if p.first {
			for i := range p.sbuf {
				p.sbuf[i] = byte(i / 16)
			}
		}
		require.NoError(t, p.windows(p.sbuf[:16], p.rbuf[:16], p.reqs[:4], 1))
		for i := range p.rbuf {
			if !p.first {
				require.Equal(t, byte(i/16), p.rbuf[i], "byte %d", i)
			}
		}
		return nil
	})
	o := Find("bw").Defaults
	o.Multiple, o.Registered = true, true
	require.ErrorContains(t, Find("bw").Check(2, o), "registered memory is one buffer")
}
