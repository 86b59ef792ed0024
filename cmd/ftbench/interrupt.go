package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// interrupted is the cause of the end of a command that a signal has ended.
type interrupted struct{ by syscall.Signal }

// Error names the signal in the system's words.
func (e interrupted) Error() string { return fmt.Sprintf("ended by a signal: %v", e.by) }

// interruptible returns a context that SIGINT, SIGTERM or SIGHUP ends, so that processes and files
// of a measurement are cleared away. A second one is fatal at once, but for the same one within a
// second: timeout(1) sends each twice, to the process and to its group. SIGHUP stays ignored where
// it was (nohup).
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
			cancel(interrupted{s.(syscall.Signal)})
			select {
			case again := <-signals:
				signal.Stop(signals)
				if again != s {
					_ = syscall.Kill(os.Getpid(), again.(syscall.Signal)) // cannot fail
				}
			case <-time.After(time.Second):
				signal.Stop(signals)
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// orInterrupt returns the error that counts: after a signal an error is the signal's.
func orInterrupt(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
