package fabrictest

import "testing"

// TestCorrectProvider: the suite passes on a provider that keeps the contract.
func TestCorrectProvider(t *testing.T) {
	b := Budget{Kills: 200, Wakeups: 2000, Rounds: 20}
	if testing.Short() {
		b.Kills = 20
	}
	Run(t, memDriver{}, b)
}
