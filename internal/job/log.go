package job

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// lineHandler prints each event as one line: "banyan: rank 0: peer 3: tcp: connected, path …: reason".
type lineHandler struct {
	to    io.Writer
	attrs []slog.Attr
}

// Enabled implements slog.Handler. Debug events are not printed.
func (h lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

// WithAttrs implements slog.Handler.
func (h lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(slices.Clip(h.attrs), attrs...)
	return h
}

// WithGroup implements slog.Handler: groups do not show.
func (h lineHandler) WithGroup(string) slog.Handler { return h }

// Handle implements slog.Handler. It writes the line at once, so that lines of processes do not mix.
func (h lineHandler) Handle(_ context.Context, r slog.Record) error {
	var rank, peer, fabric, rest, reason string
	put := func(a slog.Attr) bool {
		switch v := a.Value.String(); a.Key {
		case "rank":
			rank = "rank " + v + ": "
		case "peer":
			peer = "peer " + v + ": "
		case "fabric":
			fabric = v + ": "
		case "reason":
			reason += ": " + v
		default:
			rest += ", " + a.Key + " " + v
		}
		return true
	}
	for _, a := range h.attrs {
		put(a)
	}
	r.Attrs(put)
	line := strings.ReplaceAll(rank+peer+fabric+r.Message+rest+reason, "\n", " ")
	_, err := fmt.Fprintln(h.to, "banyan: "+line)
	return err
}
