package settings

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWords(t *testing.T) {
	k := Of(DetectPartition)
	for text, want := range map[string]int{"majority": 0, "off": 1, "OFF": 1} {
		got, err := k.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "0", "on", "auto", "major"} {
		_, err := k.Parse(text)
		require.ErrorContains(t, err, "detect.partition = "+text+": majority or off is possible")
	}
}

// A timeout that leaves no room for a lost heartbeat is an error that names both
// values and where they come from, unless the detector is off.
func TestTimeoutHasThreePeriods(t *testing.T) {
	for env, ok := range map[string]bool{
		"BANYAN_DETECT_PERIOD=1000ms": true, "BANYAN_DETECT_PERIOD=1001ms": false,
		"BANYAN_DETECT_TIMEOUT=1500ms": true, "BANYAN_DETECT_TIMEOUT=1499ms": false,
	} {
		_, err := Load(Surroundings{Environ: []string{env}})
		require.Equal(t, ok, err == nil, "%s: %v", env, err)
		_, err = Load(Surroundings{Environ: []string{env, "BANYAN_DETECT=off"}})
		require.NoError(t, err, env)
	}
	_, err := Load(Surroundings{Environ: []string{"BANYAN_DETECT_PERIOD=1500ms"}})
	require.ErrorContains(t, err, "detect.timeout = 3s (default) is less than 3 times detect.period = 1500ms (BANYAN_DETECT_PERIOD)")
	_, err = Load(Surroundings{Environ: []string{"BANYAN_DETECT_TIMOUT=2s"}})
	require.ErrorContains(t, err, "BANYAN_DETECT_TIMEOUT")
}
