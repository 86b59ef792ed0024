package peers

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// TurnsName is what results call the program of [Turns].
const TurnsName = "bare-turns"

// Turns returns what builds the command that has n processes of bare/turns.c time operations, as
// [MPI.Recovery] does: what these take on this machine without any library. It compiles where that
// has not been done; the error is a [*NotInstalledError] without a compiler.
func Turns(ctx context.Context) (Program, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return nil, &NotInstalledError{Peer: TurnsName, Tool: "cc", Packages: "gcc libc6-dev"}
	}
	source, err := sources.ReadFile("bare/turns.c")
	if err != nil {
		return nil, err
	}
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	program, err := build(ctx, cc, filepath.Join(dir, fmt.Sprintf("turns-%x", sha256.Sum256(source))), source)
	if err != nil {
		return nil, err
	}
	return func(n int, args []string) Command {
		return Command{Argv: append([]string{program, strconv.Itoa(n)}, args...), CPU: -1}
	}, nil
}
