package launch

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestRepeatedSignals(t *testing.T) {
	type sent struct {
		sig  os.Signal
		tick int // when
		drop bool
	}
	for name, all := range map[string][]sent{
		"as timeout sends them": {{unix.SIGTERM, 0, false}, {unix.SIGTERM, 0, true}, {unix.SIGCONT, 0, false}, {unix.SIGCONT, 0, false}},
		"a third":               {{unix.SIGINT, 0, false}, {unix.SIGINT, 1, true}, {unix.SIGINT, 2, false}, {unix.SIGINT, 3, false}},
		"just in time":          {{unix.SIGTERM, 0, false}, {unix.SIGTERM, repeatTicks - 1, true}, {unix.SIGTERM, repeatTicks - 1, false}},
		"late":                  {{unix.SIGTERM, 0, false}, {unix.SIGTERM, repeatTicks, false}, {unix.SIGTERM, repeatTicks, false}},
		"another":               {{unix.SIGTERM, 0, false}, {unix.SIGINT, 1, false}, {unix.SIGTERM, 2, true}, {unix.SIGINT, 3, true}},
		"no request to end":     {{unix.SIGUSR1, 0, false}, {unix.SIGUSR1, 0, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var repeats repeats
			now := 0
			for i, s := range all {
				for ; now < s.tick; now++ {
					repeats.tick()
				}
				require.Equal(t, s.drop, repeats.drop(s.sig), "signal %d", i)
			}
		})
	}
	counting := repeats{unix.SIGINT: 2}
	require.True(t, counting.tick())
	require.False(t, counting.tick(), "the clock may stop")
}
