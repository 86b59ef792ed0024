package launch

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestTwins(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	type sent struct {
		sig  os.Signal
		ms   int
		drop bool
	}
	for name, all := range map[string][]sent{
		"as timeout sends them": {{unix.SIGTERM, 0, false}, {unix.SIGTERM, 0, true}, {unix.SIGCONT, 0, false}, {unix.SIGCONT, 0, false}},
		"a third":               {{unix.SIGINT, 0, false}, {unix.SIGINT, 1, true}, {unix.SIGINT, 2, false}, {unix.SIGINT, 3, false}},
		"late":                  {{unix.SIGTERM, 0, false}, {unix.SIGTERM, 1000, false}, {unix.SIGTERM, 1001, false}},
		"another":               {{unix.SIGTERM, 0, false}, {unix.SIGINT, 1, false}, {unix.SIGTERM, 2, true}, {unix.SIGINT, 3, true}},
		"no request to end":     {{unix.SIGUSR1, 0, false}, {unix.SIGUSR1, 0, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var twins twins
			for i, s := range all {
				require.Equal(t, s.drop, twins.drop(s.sig, at(s.ms)), "signal %d", i)
			}
		})
	}
}
