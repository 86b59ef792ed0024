package many

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/bench/peers"
)

// jobMax bounds one job: ranks that spin on shared cores take long.
const jobMax = 3 * time.Minute

// Args are the arguments of a program that measures: the file for its sample, the repetitions and the sizes.
func Args(file string, o Options) []string {
	args := []string{file, strconv.Itoa(o.Repeats)}
	for _, size := range o.Sizes {
		args = append(args, strconv.Itoa(size))
	}
	return args
}

// Measure starts a job of n ranks and returns its sample. The shared memory is the growth since before.
func Measure(ctx context.Context, n int, o Options, program peers.Program) (*Sample, error) {
	before := Shared()
	text, err := peers.RunWithFile(ctx, jobMax, func(file string) peers.Command { return program(n, Args(file, o)) })
	if err != nil {
		return nil, err
	}
	s, err := parse(text, n, o.Sizes)
	if err != nil {
		return nil, err
	}
	s.Shared = max(0, s.Shared-before)
	return s, nil
}

// field is a line of the file of a sample.
type field struct {
	name  string
	value *float64
	time  bool // above 0
}

// fields are the lines in their order. The times are there.
func (s *Sample) fields() []field {
	var out []field
	for i := range s.Times {
		t := &s.Times[i]
		out = append(out, field{fmt.Sprintf("first:%d", t.Size), &t.First, true},
			field{fmt.Sprintf("second:%d", t.Size), &t.Second, true},
			field{fmt.Sprintf("steady:%d", t.Size), &t.Steady, true})
	}
	return append(out, field{"processor", &s.Processor, false}, field{"shared", &s.Shared, false},
		field{"before", &s.Before, false}, field{"after", &s.After, false}, field{"peak", &s.Peak, false})
}

// Write appends the sample to the file of [Args], a line for each number: seconds and bytes.
func (s *Sample) Write(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("many: %w", err)
	}
	defer f.Close()
	_, err = f.WriteString(s.text())
	return err
}

func (s *Sample) text() string {
	var b strings.Builder
	for _, f := range s.fields() {
		fmt.Fprintf(&b, "%s %g\n", f.name, *f.value)
	}
	return b.String()
}

// parse parses the output of a program for so many ranks and these sizes.
func parse(text string, ranks int, sizes []int) (*Sample, error) {
	s := &Sample{Ranks: ranks}
	for _, size := range sizes {
		s.Times = append(s.Times, Times{Size: size})
	}
	fields := s.fields()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != len(fields) {
		return nil, fmt.Errorf("many: %d lines of a sample, %d were to come: %.100q", len(lines), len(fields), text)
	}
	for i, f := range fields {
		name, number, _ := strings.Cut(lines[i], " ")
		v, err := strconv.ParseFloat(number, 64)
		if name != f.name || err != nil || !(v >= 0 && v <= math.MaxFloat64) || f.time && v == 0 {
			return nil, fmt.Errorf("many: not the value of %s: %q", f.name, lines[i])
		}
		*f.value = v
	}
	return s, nil
}

// parseKilobytes finds a line "NAME: 123 kB" and returns bytes; 0 where there is none.
func parseKilobytes(text, name string) float64 {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 3 && words[0] == name+":" && words[2] == "kB" {
			if n, err := strconv.ParseUint(words[1], 10, 40); err == nil {
				return 1024 * float64(n)
			}
		}
	}
	return 0
}
