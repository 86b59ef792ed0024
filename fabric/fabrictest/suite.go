package fabrictest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Budget limits the repetitions.
type Budget struct {
	Kills   int // runs of each case with a victim, each killed at another moment
	Wakeups int // round trips with a sleep on every wait
	Rounds  int // repetitions of cases that depend on chance, and of small exchanges
	// Attentive: the provider's Close waits for a receiver that reads, and promises nothing for
	// frames that no process reads before their sender has ended.
	Attentive bool
}

// fromEnv applies BANYAN_KILLS and BANYAN_WAKEUPS, and fills in defaults.
func (b Budget) fromEnv() Budget {
	return Budget{
		Kills:   envInt("BANYAN_KILLS", cmp.Or(b.Kills, 20)),
		Wakeups: envInt("BANYAN_WAKEUPS", cmp.Or(b.Wakeups, 2000)),
		Rounds:  cmp.Or(b.Rounds, 50), Attentive: b.Attentive,
	}
}

func envInt(name string, otherwise int) int {
	v, err := strconv.Atoi(os.Getenv(name))
	if err != nil || v < 0 {
		return otherwise
	}
	return v
}

// replaySeed is BANYAN_SEED.
func replaySeed() (seed uint64, ok bool) {
	v, err := strconv.ParseUint(os.Getenv("BANYAN_SEED"), 10, 64)
	return v, err == nil
}

// Run runs the named cases, or the whole suite without names, a subtest for each. The short form,
// for the race detector, leaves out cases that measure their process: they suffer most from it, and
// other cases have the same traffic.
func Run(t *testing.T, d Driver, b Budget, names ...string) {
	t.Helper()
	ran := 0
	for _, c := range Cases() {
		if len(names) > 0 && !slices.Contains(names, c.Name) {
			continue
		}
		ran++
		if c.Isolated && (!d.Isolated() || testing.Short()) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if err := Verify(d, c, b, uint64(time.Now().UnixNano())); err != nil {
				t.Fatal(err)
			}
		})
	}
	if len(names) > 0 && ran != len(names) {
		t.Errorf("%d of the cases %q exist", ran, names)
	}
}

// Verify runs one case: once, or with victims Budget.Kills times, with seeds counted up from the
// given one. The error names the seed that failed.
func Verify(d Driver, c Case, b Budget, seed uint64) error {
	b = b.fromEnv()
	runs := 1
	if len(c.Victims) > 0 {
		runs = max(1, b.Kills)
	}
	if c.Repeat {
		runs = max(1, b.Rounds)
	}
	if s, ok := replaySeed(); ok {
		seed, runs = s, 1
	}
	const enough = 20 // fewer runs may well miss the situation of a case, and this many miss it now and then
	most := runs
	if runs >= enough {
		most = 5 * runs
	}
	reached := make(map[string]bool)
	for i := 0; i < runs || i < most && len(reached) < len(c.Reaches); i++ {
		job := Job{Case: c.Name, N: c.N, Seed: seed + uint64(i), Victims: c.Victims}
		if c.Args != nil {
			job.Args = c.Args(b)
		}
		outs, err := verifyOnce(d, c, job)
		if err != nil {
			return fmt.Errorf("%s (run %d of %d): %w\nBANYAN_SEED=%d runs it again", c.Name, i+1, runs, err, job.Seed)
		}
		noteReached(reached, c, outs)
	}
	for _, kind := range c.Reaches {
		if runs >= enough && !reached[kind] {
			return fmt.Errorf("%s: none of %d runs has reached %q, so they prove little", c.Name, most, kind)
		}
	}
	return nil
}

func noteReached(reached map[string]bool, c Case, outs []Outcome) {
	for _, kind := range c.Reaches {
		for i := range outs {
			if v := outs[i].Vals(kind); len(v) > 0 && v[0] > 0 {
				reached[kind] = true
			}
		}
	}
}

func verifyOnce(d Driver, c Case, job Job) ([]Outcome, error) {
	outs, err := d.Run(job)
	if complaints := complaints(outs); complaints != nil {
		return outs, errors.Join(complaints, err)
	}
	if err != nil {
		return outs, err
	}
	if err := judge(job, outs); err != nil || c.Check == nil {
		return outs, err
	}
	return outs, c.Check(outs)
}
