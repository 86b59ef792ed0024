package startup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// algorithmsDiffer has one rank of three take another table. None starts, and none waits.
func algorithmsDiffer() error {
	table := "bcast * * * 4k.. chain"
	if os.Getenv("PMI_RANK") == "1" {
		table = "bcast * * * 8k.. chain"
	}
	_, err := banyan.Init(banyan.WithAlgorithms(table))
	if !errors.Is(err, banyan.ErrArgument) ||
		!strings.Contains(err.Error(), "rank 0 and rank 1 differ in their tables of collectives' algorithms: give all ranks") {
		return fmt.Errorf("got %w, want that rank 1 differs", err)
	}
	fmt.Fprintln(os.Stderr, "as expected")
	return nil
}

func TestAlgorithmsAlike(t *testing.T) {
	_, text := ranktest.Job(t, launch.Continue, 3, "algorithms differ")
	require.Equal(t, 3, strings.Count(text, "as expected"), text)
}

// showAlgorithm prints how a broadcast goes.
func showAlgorithm(w *banyan.World) error {
	if err := errors.Join(w.Comm().Barrier(), w.Comm().Barrier()); err != nil {
		return err
	}
	by, err := w.Comm().Algorithm("bcast", 8)
	fmt.Fprintf(os.Stderr, "a broadcast goes by %s\n", by)
	return err
}

// A table is read from a variable, or from a file of settings, relative to that file, unless the variable is none; a
// wrong or missing one is an error with the place and the remedy.
func TestAlgorithmsOfAFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	right := write("right", "# measured here\nbcast  ..4  all  *  *  binomial\n")
	wrong := write("wrong", "\nbcast  ..4  all  *  *  ring\n")
	conf := "BANYAN_TUNING=" + write("tune.conf", "coll.algorithms = right # beside this file\n")
	const variable = "BANYAN_COLL_ALGORITHMS="
	for env, want := range map[string]string{
		"":                                 "a broadcast goes by memory",
		variable + right:                   "a broadcast goes by binomial",
		conf:                               "a broadcast goes by binomial",
		conf + " " + variable + "none":     "a broadcast goes by memory",
		variable + wrong:                   "coll.algorithms = " + wrong + " (BANYAN_COLL_ALGORITHMS): " + wrong + ":2: bcast has no algorithm ring: take one of memory, levels",
		variable + filepath.Join(dir, "x"): "no such file or directory: ftbench tune coll --out " + filepath.Join(dir, "x") + " makes it, BANYAN_COLL_ALGORITHMS=none does without",
	} {
		_, text := ranktest.Job(t, launch.Continue, 2, "show algorithm", strings.Fields(env)...)
		require.Equal(t, 2, strings.Count(text, want), "%s: want %s in %s", env, want, text)
	}
}
