package peers

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DeathsName is the name of the program of [Deaths] in results.
const DeathsName = "bare-death"

// deathMax bounds one round of [Deaths], starts included.
const deathMax = 10 * time.Second

// Deaths returns the times from a kill to each of n survivors, for each of so many kills, of the
// processes of bare/death.c: the time to detect a death on this machine without a library. A victim
// has touched so many MiB; the survivors poll, or sleep. The error is a [*NotInstalledError]
// without a compiler.
func Deaths(ctx context.Context, n, kills, megabytes int, poll bool) ([][]time.Duration, error) {
	program, err := bare(ctx, DeathsName, "death")
	if err != nil {
		return nil, err
	}
	how := "sleep"
	if poll {
		how = "poll"
	}
	text, err := RunWithFile(ctx, time.Duration(kills)*deathMax, func(file string) Command {
		return Command{Argv: []string{program, file, strconv.Itoa(n), strconv.Itoa(kills), strconv.Itoa(megabytes), how}, CPU: -1}
	})
	if err != nil {
		return nil, err
	}
	return parseDeaths(text, n, kills)
}

// parseDeaths reads a line of n times in ns for each kill.
func parseDeaths(text string, n, kills int) (rounds [][]time.Duration, err error) {
	for line := range strings.Lines(text) {
		var round []time.Duration
		for word := range strings.FieldsSeq(line) {
			ns, err := strconv.ParseInt(word, 10, 64)
			if err != nil || ns <= 0 {
				return nil, fmt.Errorf("peers: not a time from a kill to a survivor: %q", word)
			}
			round = append(round, time.Duration(ns))
		}
		if len(round) != n {
			return nil, fmt.Errorf("peers: %d times of a kill, %d were to come: %.100q", len(round), n, line)
		}
		rounds = append(rounds, round)
	}
	if len(rounds) != kills {
		return nil, fmt.Errorf("peers: %d kills, %d were to come", len(rounds), kills)
	}
	return rounds, nil
}
