package fault

import (
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan/internal/settings"
)

// CheckTimes finds what no detector can run with: 0 is the library's. The ranks would find it
// as well, each of them.
func CheckTimes(period, timeout time.Duration) error {
	s := settings.Defaults()
	for _, v := range []struct {
		flag string
		time time.Duration
		id   settings.ID
	}{{"--period", period, settings.DetectPeriod}, {"--timeout", timeout, settings.DetectTimeout}} {
		if v.time == 0 {
			continue
		}
		if v.time%time.Millisecond != 0 {
			return fmt.Errorf("%s %v: whole milliseconds are needed", v.flag, v.time)
		}
		if err := s.Override(v.id, int(v.time.Milliseconds()), v.flag); err != nil {
			return err
		}
	}
	return s.Agree()
}
