package peers

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Collective is an operation of a number of bytes.
type Collective struct {
	Op    string // "barrier", "bcast", "allreduce"; "agree", "shrink", "revoke"
	Bytes int
}

// String is its form in the arguments of programs.
func (c Collective) String() string { return c.Op + ":" + strconv.Itoa(c.Bytes) }

// ParseCollective reads what String writes.
func ParseCollective(text string) (Collective, error) {
	op, size, ok := strings.Cut(text, ":")
	n, err := strconv.Atoi(size)
	if !ok || err != nil || n < 0 {
		return Collective{}, fmt.Errorf("peers: %q is no collective: want OPERATION:BYTES", text)
	}
	return Collective{op, n}, nil
}

// CollectiveArgs are the arguments of a program that times collectives: the file for its results,
// how long each is called, and which.
func CollectiveArgs(file string, each time.Duration, ops []Collective) []string {
	args := []string{file, strconv.FormatFloat(each.Seconds()*1e3, 'f', -1, 64)}
	for _, c := range ops {
		args = append(args, c.String())
	}
	return args
}

// TimeCollectives runs a command that times collectives and returns their seconds.
func TimeCollectives(ctx context.Context, each time.Duration, ops []Collective,
	command func(args []string) Command) ([]float64, error) {
	text, err := RunWithFile(ctx, collectivesMax,
		func(file string) Command { return command(CollectiveArgs(file, each, ops)) })
	if err != nil {
		return nil, err
	}
	return parseCollectives(text, ops)
}

// collectivesMax bounds one run.
const collectivesMax = 2 * time.Minute

// parseCollectives reads the lines of rank 0.
func parseCollectives(text string, ops []Collective) ([]float64, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != len(ops) {
		return nil, fmt.Errorf("peers: %d times of collectives, %d were to come: %.100q", len(lines), len(ops), text)
	}
	out := make([]float64, len(ops))
	for i, line := range lines {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != ops[i].Op || words[1] != strconv.Itoa(ops[i].Bytes) {
			return nil, fmt.Errorf("peers: not the time of %v: %q", ops[i], line)
		}
		ns, err := strconv.ParseFloat(words[2], 64)
		if err != nil || !(ns > 0 && ns <= math.MaxFloat64) {
			return nil, fmt.Errorf("peers: not the time of %v: %q", ops[i], line)
		}
		out[i] = ns / 1e9
	}
	return out, nil
}
