package fabrictest

import "testing"

// TestSoundProvider: the suite has nothing to say against a provider that keeps
// the contract.
func TestSoundProvider(t *testing.T) {
	b := Budget{Kills: 500, Wakeups: 5000, Rounds: 20}
	if testing.Short() {
		b.Kills = 20
	}
	Run(t, memDriver{}, b)
}
