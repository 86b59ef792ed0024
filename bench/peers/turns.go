package peers

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// TurnsName is the name of the program of [Turns] in results.
const TurnsName = "bare-turns"

// Turns returns a program that builds the command in which n processes of bare/turns.c time
// operations, as [MPI.Recovery] does: their times on this machine without any library. It compiles
// the source if that has not been done; the error is a [*NotInstalledError] without a compiler.
func Turns(ctx context.Context) (Program, error) {
	program, err := bare(ctx, TurnsName, "turns")
	if err != nil {
		return nil, err
	}
	return func(n int, args []string) Command {
		return Command{Argv: append([]string{program, strconv.Itoa(n)}, args...), CPU: -1}
	}, nil
}

// bare compiles a program of the folder bare, for a peer with a name, where that has not been done.
func bare(ctx context.Context, peer, source string) (program string, err error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", &NotInstalledError{Peer: peer, Tool: "cc", Packages: "gcc libc6-dev"}
	}
	text, err := sources.ReadFile("bare/" + source + ".c")
	if err != nil {
		return "", err
	}
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	return build(ctx, cc, filepath.Join(dir, fmt.Sprintf("%s-%x", source, sha256.Sum256(text))), text)
}
