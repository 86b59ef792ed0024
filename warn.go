package banyan

import (
	"context"
	"fmt"
	"os"

	"github.com/banyan-hpc/banyan/internal/settings"
)

// warnf is Warn for fabrics, which speak of processes where users know ranks.
func (l *launched) warnf(format string, args ...any) { l.Warn(fmt.Sprintf(format, inRanks(args)...)) }

// Warn implements bootstrap. Somebody may hold the standard error up, so it has a goroutine.
func (l *launched) Warn(text string) {
	if l.logf != nil {
		l.logf("%s", text)
		return
	}
	l.warnings.Go(func() { fmt.Fprintf(os.Stderr, "banyan: rank %d: %s\n", l.Rank(), text) })
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

// Finalize implements bootstrap: it lets warnings out first.
func (l *launched) Finalize(ctx context.Context) error {
	l.warnings.Wait()
	return l.launcher.Finalize(ctx)
}
