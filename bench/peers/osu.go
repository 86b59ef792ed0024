package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// OSU builds the command that starts n ranks of one of OSU's own programs, which the user has built for this MPI
// below dir, in a folder of the name of the MPI. Its first argument is the program's name without "osu_".
func (m MPI) OSU(dir string) (Program, error) {
	launcher, err := m.find(m.Launcher)
	if err != nil {
		return nil, err
	}
	programs := map[string]string{}
	root := filepath.Join(dir, m.Name)
	there, err := filepath.EvalSymlinks(root)
	if err == nil {
		err = filepath.WalkDir(there, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, ours := strings.CutPrefix(d.Name(), "osu_")
			if info, err := d.Info(); err == nil && ours && info.Mode()&0o111 != 0 {
				programs[name] = path
			}
			return nil
		})
	}
	if err == nil && len(programs) == 0 {
		err = errors.New("no osu_* that can be run")
	}
	if err != nil {
		return nil, fmt.Errorf("peers: OSU's programs for %s in %s: %w: build them with its compiler, "+
			"./configure CC=%s CXX=%s && make", m.Name, root, err, m.Compiler, strings.Replace(m.Compiler, "cc", "cxx", 1))
	}
	return func(n int, args []string) Command {
		argv := slices.Concat([]string{launcher}, m.Options, m.Crowded, []string{"-n", strconv.Itoa(n),
			programs[args[0]]}, args[1:])
		return Command{Argv: argv, Env: m.Env, CPU: -1}
	}, nil
}

// OSUArgs are the arguments of a program of OSU, and of ftbench osu: the sizes are doubled from low to high.
func OSUArgs(name string, low, high, iterations int) []string {
	args := []string{name, "-i", strconv.Itoa(iterations), "-x", strconv.Itoa(iterations / 10)}
	if high > 0 {
		args = append(args, "-m", fmt.Sprintf("%d:%d", low, high))
	}
	return args
}

// TimeOSU runs the command of such a program and returns the seconds that it prints, of n sizes.
func TimeOSU(ctx context.Context, n int, c Command) ([]float64, error) {
	text, err := RunWithFile(ctx, collectivesMax, func(file string) Command {
		c.Argv = append([]string{"/bin/sh", "-c", `file=$1; shift; exec "$@" >"$file"`, "sh", file}, c.Argv...)
		return c
	})
	if err != nil {
		return nil, err
	}
	return parseOSU(text, n)
}

// parseOSU reads a table of n lines of a size and a mean in µs, or one of a mean.
func parseOSU(text string, n int) (out []float64, err error) {
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0] == "#" || strings.HasPrefix(words[0], "#") {
			continue
		}
		mean, err := strconv.ParseFloat(words[min(1, len(words)-1)], 64)
		if err != nil || !(mean > 0) || mean > 1e9 {
			return nil, fmt.Errorf("peers: not a line of OSU's table: %.100q", lines.Text())
		}
		out = append(out, mean/1e6)
	}
	if len(out) != n {
		return nil, fmt.Errorf("peers: a table of OSU of %d lines, %d were to come", len(out), n)
	}
	return out, nil
}
