package peers

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The programs that time operations of all ranks.
var (
	//go:embed mpi/coll.c
	collSource []byte
	//go:embed mpi/ulfm.c
	ulfmSource []byte
)

// Collective is an operation of a number of bytes.
type Collective struct {
	Op    string // "barrier", "bcast", "allreduce"; "agree", "shrink", "revoke"
	Bytes int
}

// String is how it stands in the arguments of programs.
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

// CollectiveArgs are the arguments of a program that times collectives: the file for its results, how long each
// is called, and which.
func CollectiveArgs(file string, each time.Duration, ops []Collective) []string {
	args := []string{file, strconv.FormatFloat(each.Seconds()*1e3, 'f', -1, 64)}
	for _, c := range ops {
		args = append(args, c.String())
	}
	return args
}

// Collectives returns what builds the command that has n ranks of mpi/coll.c time collectives. It compiles where that
// has not been done; the error is a [*NotInstalledError] when a tool is missing.
func (m MPI) Collectives(ctx context.Context) (func(n int, args []string) Command, error) {
	return m.crowd(ctx, "coll", collSource)
}

// Recovery is as Collectives with mpi/ulfm.c, which needs fault tolerance, see [ULFM]; its operations have no bytes.
func (m MPI) Recovery(ctx context.Context) (func(n int, args []string) Command, error) {
	return m.crowd(ctx, "ulfm", ulfmSource)
}

// crowd compiles a program for any number of ranks.
func (m MPI) crowd(ctx context.Context, name string, source []byte) (func(n int, args []string) Command, error) {
	program, err := m.compile(ctx, name, source)
	if err != nil {
		return nil, err
	}
	launcher, err := m.find(m.Launcher)
	if err != nil {
		return nil, err
	}
	return func(n int, args []string) Command {
		argv := append([]string{launcher}, m.Options...)
		argv = append(append(argv, m.Crowded...), "-n", strconv.Itoa(n), program)
		return Command{Argv: append(argv, args...), Env: m.Env, CPU: -1}
	}, nil
}

// TimeCollectives runs a command that times collectives and returns their seconds.
func TimeCollectives(ctx context.Context, each time.Duration, ops []Collective, command func(args []string) Command) ([]float64, error) {
	dir, err := Scratch("coll")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "times")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	if err := RunProgram(ctx, command(CollectiveArgs(file, each, ops)), collectivesMax); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	return parseCollectives(string(text), ops)
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
