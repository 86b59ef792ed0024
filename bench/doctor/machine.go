package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/verbs"
	"github.com/banyan-hpc/banyan/internal/job"
	"github.com/banyan-hpc/banyan/internal/launch"
)

// Machine prints a report on this machine and returns its lines: for each allowed fabric whether two
// ranks reach each other by it, started with the arguments trial, and the requirements of the
// fabrics. A line that starts with missing makes it an error.
func Machine(out io.Writer, allowed route.Set, trial []string) ([]Finding, error) {
	p := &printer{out: out}
	p.section("fabrics")
	for _, f := range []route.Fabric{route.Shm, route.Verbs, route.Unix, route.TCP} {
		switch {
		case allowed.Has(f) && f == route.Verbs:
			p.all(adapter(trial))
		case allowed.Has(f):
			p.all(try(f, trial))
		default:
			p.all(finding{warning, f.String(), "left out", "allow it with " + fabricEnv + " or --fabric"})
		}
	}
	root := os.DirFS("/")
	for _, part := range []struct {
		name  string
		found []finding
	}{
		{"shared memory", sharedMemory(root)},
		{"network", network()},
		{"failure detection", detection(root)},
		{"processors", processors(root)},
		{"limits", limits(root)},
		{"settings", settingsFound()},
	} {
		p.section(part.name)
		p.all(part.found...)
	}
	if p.err != nil || p.missing == 0 {
		return p.found, p.err
	}
	return p.found, fmt.Errorf("doctor: %s with missing above: each has its cure", counted(p.missing, "line"))
}

// adapter looks for an RDMA adapter. A machine without one lacks nothing.
func adapter(trial []string) finding {
	_, err := job.AdapterPorts(nil)
	switch {
	case errors.Is(err, verbs.ErrNone):
		return finding{ok, route.Verbs.String(), "no RDMA adapter here", ""}
	case err != nil:
		return finding{warning, route.Verbs.String(), err.Error(), "messages to other machines go over TCP"}
	}
	return try(route.Verbs, trial)
}

// trialTime bounds the time in which two ranks connect.
const trialTime = 20 * time.Second

// try has two ranks that may use one fabric only exchange messages.
func try(f route.Fabric, argv []string) finding {
	ctx, cancel := context.WithTimeout(context.Background(), trialTime)
	defer cancel()
	var out, errs bytes.Buffer
	res, err := launch.Run(ctx, launch.Spec{
		N: 2, Argv: argv, OnFailure: launch.Abort, InitTimeout: trialTime,
		Env:    append(os.Environ(), fabricEnv+"="+f.String()),
		Stdout: &out, Stderr: &errs,
	})
	switch {
	case err != nil:
		return finding{missing, f.String(), err.Error(), ""}
	case res.Code != 0:
		return finding{missing, f.String(), "two ranks do not reach each other: " + firstCause(errs.String()),
			"see the parts below"}
	default:
		return finding{ok, f.String(), oneLine(out.String()), ""}
	}
}

// firstCause is the error of the first of two ranks that failed; the other one prints the same, and
// the launcher that they have ended.
func firstCause(text string) string {
	for line := range strings.Lines(text) {
		if cause, found := strings.CutPrefix(strings.TrimSpace(line), "ftbench: "); found {
			return strings.TrimPrefix(cause, "banyan: ")
		}
	}
	return oneLine(text)
}

// oneLine joins the lines of the output of a program.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "; ")
}

// Trial is one of the two ranks of a trial. Rank 0 prints the result.
func Trial(w *banyan.World, out io.Writer) error {
	c := w.Comm()
	if c.Size() != 2 {
		return errors.New("doctor --trial is for two ranks that doctor starts itself")
	}
	peer := 1 - c.Rank()
	short, err := pingPong(c, peer, 8, 1000)
	if err != nil {
		return err
	}
	const size = 1 << 20
	long, err := pingPong(c, peer, size, 10)
	if err != nil || c.Rank() != 0 {
		return err
	}
	r, err := w.Route(peer)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "two ranks reach each other, %s: 8 bytes in %.2f µs, %.1f GB/s at 1 MiB; not measured "+
		"with care\n",
		cmp.Or(r.Detail, r.Fabric), short.Seconds()*1e6, size/long.Seconds()/1e9)
	return err
}

// pingPong is the time one way.
func pingPong(c *banyan.Comm, peer, bytes, rounds int) (time.Duration, error) {
	buf := make([]byte, bytes)
	start := time.Now()
	for i := range 2 * rounds {
		if i == rounds { // the first half was to warm up
			start = time.Now()
		}
		var err error
		if c.Rank() == 0 {
			if err = c.Send(buf, peer, 1); err == nil {
				_, err = c.Recv(buf, peer, 1)
			}
		} else if _, err = c.Recv(buf, peer, 1); err == nil {
			err = c.Send(buf, peer, 1)
		}
		if err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(2*rounds), nil
}
