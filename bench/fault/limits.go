package fault

import (
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan/internal/settings"
)

// Limits of the options.
const (
	MaxRanks          = 4096    // of a job of processes
	MaxSimulatedRanks = 1 << 20 // of a job in the simulator
	MaxKills          = 1 << 20
	MaxPerJob         = 1024
	MaxVictimMB       = 1 << 20
	MaxRounds         = 1 << 20
	MaxSets           = 1 << 20
	MaxSize           = 1 << 30
)

// limit is the range of a flag.
type limit struct {
	flag            string
	value, min, max int
}

// checkLimits returns an error for the first flag out of its range.
func checkLimits(command string, limits ...limit) error {
	for _, l := range limits {
		if l.value < l.min || l.value > l.max {
			return fmt.Errorf("fault %s: %s %d is not within %d…%d", command, l.flag, l.value, l.min, l.max)
		}
	}
	return nil
}

// CheckTimes returns an error for times that no detector can run with; 0 is the library's default.
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
