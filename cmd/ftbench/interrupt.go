package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// interrupted is the cause of the end of a command that a signal has ended.
type interrupted struct{ by syscall.Signal }

// Error names the signal in the system's words.
func (e interrupted) Error() string { return fmt.Sprintf("ended by a signal: %v", e.by) }

// interruptible returns a context that SIGINT, SIGTERM or SIGHUP ends, so that
// processes and files of a measurement are cleared away. A second one is fatal at
// once. SIGHUP stays ignored where it was (nohup).
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(interrupted{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// orInterrupt is the error that counts: once a signal has come, what fails
// fails for that.
func orInterrupt(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
