package job

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// warnf is Warn for fabrics, with ranks in place of processes.
func (l *launched) warnf(format string, args ...any) { l.Warn(fmt.Sprintf(format, inRanks(args)...)) }

// Warn implements bootstrap. The standard error may block, so it has a goroutine.
func (l *launched) Warn(text string) {
	if l.log != nil {
		l.log.Warn(text)
		return
	}
	l.warnings.Go(func() { fmt.Fprintf(os.Stderr, "banyan: rank %d: %s\n", l.Rank(), text) })
}

// Lose implements bootstrap. After the end of the launcher no fence waits for other ranks.
func (l *launched) Lose(rank int) {
	l.warnings.Go(func() { _ = l.launcher.Lose(context.Background(), rank) })
}

// denied warns of files of settings that this user may not read.
func (l *launched) denied(set *settings.Set) {
	for _, src := range set.Sources {
		if src.Denied {
			l.Warn(fmt.Sprintf("settings: %s is %s: set HOME to this user's, or %s to a file, or to %s",
				src.Path, src.State, settings.FileVariable, settings.NoFile))
		}
	}
}

// Closing implements bootstrap.
func (l *launched) Closing() { l.connLog.stop() }

// Finalize implements bootstrap. Warnings are written first.
func (l *launched) Finalize(ctx context.Context) error {
	l.warnings.Wait()
	return l.launcher.Finalize(ctx)
}

// refused reports whether an error is that the kernel refuses a system call, as under a seccomp
// profile.
func refused(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS)
}

// cureOf is the remedy if that is why a start has failed.
func cureOf(err error) string {
	if refused(err) {
		return " (if a seccomp profile refuses the system call, allow it there)"
	}
	return ""
}

// doesWithout gives up shared memory if the kernel refuses a system call that it needs, and this
// process may use sockets. The card records it, so that the others open sockets too.
func (l *launched) doesWithout(err error) bool {
	if !refused(err) || l.self.Allowed&route.Sockets == 0 {
		return false
	}
	l.self.Allowed &= route.Sockets
	l.self.NoShm = err.Error()
	text := fmt.Sprintf("this rank shares no memory with others, and is reached by sockets: %v: "+
		"allow the system call where a seccomp profile refuses it", err)
	if first(l.launcher) {
		l.Warn(text) // for all of its machine
	} else if l.log != nil {
		l.log.Info(text)
	}
	return true
}
