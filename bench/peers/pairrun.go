package peers

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// clientAndServer runs a program that waits for a client on a free TCP port, and then its client, both to their ends. It
// returns the end of the client's output. command returns the command of a side; the server is side 0.
func clientAndServer(ctx context.Context, limit time.Duration, command func(port, side int) Command) (string, error) {
	port, release, err := reservePort()
	if err != nil {
		return "", err
	}
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := command(port, 0)
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, failed = runProgram(ctx, server, limit)
	}()
	var out string
	if err = awaitListener(ctx, port, ended); err != nil {
		err = fmt.Errorf("peers: %s: %w", server.Argv[0], err)
	} else {
		out, err = runProgram(ctx, command(port, 1), limit)
	}
	select {
	case <-ended:
	default:
		if err != nil {
			cancel() // it would wait for ever; its exit status means nothing now
			<-ended
			return "", err
		}
		<-ended // by itself, after its client
	}
	return out, cmp.Or(failed, err)
}
