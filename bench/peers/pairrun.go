package peers

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"sync"
)

// clientAndServer runs a program that waits for a client on a free TCP port, and then its client, both to their
// ends. It returns the client's output. command returns the arguments of a side; the server is side 0.
func clientAndServer(ctx context.Context, command func(port, side int) []string) (string, error) {
	port, release, err := reservePort()
	if err != nil {
		return "", err
	}
	defer release()
	side := func(n int, out *bytes.Buffer) *exec.Cmd {
		argv := command(port, n)
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr = out, out
		return cmd
	}
	var out, words bytes.Buffer
	server := side(0, &words)
	if err := server.Start(); err != nil {
		return "", err
	}
	exited := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		_ = server.Wait() // its output has the error
		close(exited)
	})
	defer wait.Wait()
	defer server.Process.Kill()
	if err := awaitListener(ctx, port, exited); err != nil {
		return "", fmt.Errorf("%w; the server said: %s", err, words.String())
	}
	if err := side(1, &out).Run(); err != nil {
		return "", fmt.Errorf("client: %w: %s", err, out.String())
	}
	select { // the server ends by itself after its client
	case <-exited:
		return out.String(), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
