package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/launch/join"
)

type doctorCmd struct {
	Fabric   fabricList `placeholder:"LIST" help:"Look at these fabrics only: shm, unix, tcp, with commas. Default: all (BANYAN_FABRIC)."`
	Networks string     `placeholder:"LIST" help:"Judge the interfaces as with these networks. Default: all that are up (BANYAN_NETWORKS)."`

	Trial bool `hidden:"" help:"One of two ranks that try whether they reach each other."`
}

// Help has the examples.
func (doctorCmd) Help() string {
	return `Alone it looks at this machine: what each fabric needs, whether two ranks really
reach each other by it, which addresses are used, limits, processors, settings. Each
line begins with ok, warning or missing; what is not ok has its cure. The exit code is
1 if a line begins with missing, else 0.

As a job it prints by which fabric each rank reaches each other one, and for each that
is not shared memory why, with the addresses and the interface of each pair of sockets
and how many connections were admitted, healed and refused; and how ranks learn of each
other's deaths: by what on each node, and after what silence. Start it as you start your
program. All pairs connect for it. ? stands for ranks that could not be asked. The exit
code is 1 if a pair has no fabric, else 0.

ftbench info shows the settings themselves.

Examples:
  ftbench doctor
  ftbench doctor --networks 'eth0,!10.1.0.0/16'
  ftbench run -n 4 -- ftbench doctor
  ftbench run -n 4 --fabric unix,tcp -- ftbench doctor
  mpiexec.mpich -n 4 bin/ftbench doctor`
}

// Run looks at the machine, or at the job.
func (c *doctorCmd) Run(to *call) error {
	if c.Fabric != "" {
		os.Setenv(fabricEnv, string(c.Fabric))
	}
	if c.Networks != "" {
		os.Setenv(networksEnv, c.Networks)
	}
	switch {
	case c.Trial:
		return trial(to.out)
	case join.Started():
		return c.job(to)
	}
	return c.machine(to)
}

// job reports on the job that this process is a rank of. The rank that prints ends
// with an error where others are not reached, after all have finalized.
func (c *doctorCmd) job(to *call) error {
	var apart error
	err := inJob(true, func(w *banyan.World) error {
		rows, err := showRoutes(w, to.out)
		apart = separated(rows)
		return err
	})
	return cmp.Or(err, apart)
}

// machine reports on this machine. What is missing is an error.
func (c *doctorCmd) machine(to *call) error {
	allowed, err := allowedFabrics()
	if err != nil {
		return usage(err)
	}
	p := &printer{out: to.out}
	p.section("fabrics")
	bar := progressbar.Start(to.err, "doctor", bitsOf(allowed))
	var lines []finding
	for _, f := range []route.Fabric{route.Shm, route.Unix, route.TCP} {
		if !allowed.Has(f) {
			lines = append(lines, finding{warning, f.String(), "left out", "allow it with " + fabricEnv + " or --fabric"})
			continue
		}
		lines = append(lines, try(f))
		bar.Step(1)
	}
	bar.Stop()
	p.all(lines)
	root := os.DirFS("/")
	for _, part := range []struct {
		name  string
		found []finding
	}{
		{"shared memory", sharedMemory(root)},
		{"network", network()},
		{"devices", devices(root)},
		{"failure detection", detection(root)},
		{"processors", processors(root)},
		{"limits", limits(root)},
		{"settings", settingsFound()},
	} {
		p.section(part.name)
		p.all(part.found)
	}
	if p.err != nil || p.missing == 0 {
		return p.err
	}
	return fmt.Errorf("doctor: %s with missing above: each has its cure", counted(p.missing, "line"))
}

func bitsOf(s route.Set) (n int) {
	for _, f := range []route.Fabric{route.Shm, route.Unix, route.TCP} {
		if s.Has(f) {
			n++
		}
	}
	return n
}

// allowedFabrics are those that a job would use from here.
func allowedFabrics() (route.Set, error) {
	text := os.Getenv(fabricEnv)
	if text == "" {
		return route.All, nil
	}
	return route.ParseSet(text)
}

// trialTime bounds what two ranks may take to meet.
const trialTime = 20 * time.Second

// try starts two ranks that may use one fabric only and has them exchange messages.
func try(f route.Fabric) finding {
	self, err := selfPath()
	if err != nil {
		return finding{missing, f.String(), err.Error(), ""}
	}
	ctx, cancel := context.WithTimeout(context.Background(), trialTime)
	defer cancel()
	var out, errs bytes.Buffer
	res, err := launch.Run(ctx, launch.Spec{
		N: 2, Argv: []string{self, "doctor", "--trial"}, OnFailure: launch.Abort, InitTimeout: trialTime,
		Env:    append(os.Environ(), fabricEnv+"="+f.String()),
		Stdout: &out, Stderr: &errs,
	})
	switch {
	case err != nil:
		return finding{missing, f.String(), err.Error(), ""}
	case res.Code != 0:
		return finding{missing, f.String(), "two ranks do not reach each other: " + firstCause(errs.String()), "see the parts below"}
	default:
		return finding{ok, f.String(), oneLine(out.String()), ""}
	}
}

// firstCause is what the first of two ranks said that failed; the other one says
// the same, and the launcher that they have ended.
func firstCause(text string) string {
	for line := range strings.Lines(text) {
		if cause, found := strings.CutPrefix(strings.TrimSpace(line), "ftbench: "); found {
			return strings.TrimPrefix(cause, "banyan: ")
		}
	}
	return oneLine(text)
}

// oneLine makes a sentence of what a program printed.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "; ")
}

// trial is one of two ranks. The first says how it went.
func trial(out io.Writer) error {
	return inJob(true, func(w *banyan.World) error {
		c := w.Comm()
		if c.Size() != 2 {
			return usagef("doctor --trial is for two ranks that doctor starts itself")
		}
		peer := 1 - c.Rank()
		half, err := pingPong(c, peer, 8, 1000)
		if err != nil {
			return err
		}
		const long = 1 << 20
		slow, err := pingPong(c, peer, long, 10)
		if err != nil || c.Rank() != 0 {
			return err
		}
		r, err := w.Route(peer)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "two ranks reach each other, %s: 8 bytes in %.2f µs, %.1f GB/s at 1 MiB; not measured with care\n",
			cmp.Or(r.Detail, r.Fabric), half.Seconds()*1e6, long/slow.Seconds()/1e9)
		return err
	})
}

// pingPong is the time one way.
func pingPong(c *banyan.Comm, peer, bytes, rounds int) (time.Duration, error) {
	buf := make([]byte, bytes)
	begin := time.Now()
	for i := range 2 * rounds {
		if i == rounds { // the first half was to warm up
			begin = time.Now()
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
	return time.Since(begin) / time.Duration(2*rounds), nil
}
