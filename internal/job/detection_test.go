package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/internal/settings"
)

// Adapters wait for each other for a part of the time of the detector.
func TestPatienceOfAdapters(t *testing.T) {
	for _, x := range []struct {
		options Options
		want    time.Duration
	}{
		{Options{}, 500 * time.Millisecond},
		{Options{Detection: &DetectionTimes{100 * time.Millisecond, 600 * time.Millisecond}}, 100 * time.Millisecond},
		{Options{Detection: &DetectionTimes{}}, 0},
	} {
		c, err := x.options.configure(settings.Defaults())
		require.NoError(t, err)
		require.Equal(t, x.want, c.detector.patience())
	}
}
