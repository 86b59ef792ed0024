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
	Op    string // the name of OSU's program without "osu_"; "agree", "shrink", "revoke"
	Bytes int
	// Rewritten: a rank writes its buffer before each call. Otherwise it has written it once.
	Rewritten bool
}

// rewritten is the word for it.
const rewritten = ":rewritten"

// String is its form in the arguments of programs.
func (c Collective) String() string {
	text := c.Op + ":" + strconv.Itoa(c.Bytes)
	if c.Rewritten {
		text += rewritten
	}
	return text
}

// ParseCollective parses the result of String.
func ParseCollective(text string) (Collective, error) {
	plain, again := strings.CutSuffix(text, rewritten)
	op, size, ok := strings.Cut(plain, ":")
	n, err := strconv.Atoi(size)
	if !ok || err != nil || n < 0 {
		return Collective{}, fmt.Errorf("peers: %q is no collective: want OPERATION:BYTES or OPERATION:BYTES%s", text,
			rewritten)
	}
	return Collective{op, n, again}, nil
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

// TimeCollectives runs a command that times collectives and returns their seconds, and those of the longest call of
// each, 0 if the command does not report it.
func TimeCollectives(ctx context.Context, each time.Duration, ops []Collective,
	command func(args []string) Command) (mean, longest []float64, err error) {
	text, err := RunWithFile(ctx, collectivesMax,
		func(file string) Command { return command(CollectiveArgs(file, each, ops)) })
	if err != nil {
		return nil, nil, err
	}
	return parseCollectives(text, ops)
}

// collectivesMax bounds one run.
const collectivesMax = 2 * time.Minute

// parseCollectives reads the lines of rank 0.
func parseCollectives(text string, ops []Collective) (mean, longest []float64, err error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != len(ops) {
		return nil, nil, fmt.Errorf("peers: %d times of collectives, %d were to come: %.100q", len(lines), len(ops), text)
	}
	mean, longest = make([]float64, len(ops)), make([]float64, len(ops))
	for i, line := range lines {
		words := strings.Fields(line)
		wrong := fmt.Errorf("peers: not the time of %v: %q", ops[i], line)
		if len(words) < 3 || len(words) > 4 || words[0] != ops[i].Op || words[1] != strconv.Itoa(ops[i].Bytes) {
			return nil, nil, wrong
		}
		for k, to := range []*float64{&mean[i], &longest[i]}[:len(words)-2] {
			ns, err := strconv.ParseFloat(words[2+k], 64)
			if err != nil || !(ns > 0 && ns <= math.MaxFloat64) {
				return nil, nil, wrong
			}
			*to = ns / 1e9
		}
	}
	return mean, longest, nil
}
