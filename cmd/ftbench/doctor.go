package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/launch"
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
line begins with ok, warning or missing; what is not ok has its cure.

As a job it prints by which fabric each rank reaches each other one, and for each that
is not shared memory why, with the addresses and the interface of each pair of sockets
and how many connections were admitted, healed and refused: start it as you start your
program. All pairs connect for it.

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
	case launch.Started():
		return inJob(true, func(w *banyan.World) error { return showRoutes(w, to.out) })
	}
	return c.machine(to)
}

// machine reports on this machine. What is missing and was asked for is an error.
func (c *doctorCmd) machine(to *call) error {
	allowed, err := allowedFabrics()
	if err != nil {
		return usage(err)
	}
	p := &printer{out: to.out}
	p.section("fabrics")
	bar := progressbar.Start(to.err, "doctor", bitsOf(allowed))
	broken := 0
	var lines []finding
	for _, f := range []route.Fabric{route.Shm, route.Unix, route.TCP} {
		if !allowed.Has(f) {
			lines = append(lines, finding{warning, f.String(), "left out", "allow it with " + fabricEnv + " or --fabric"})
			continue
		}
		found := try(f)
		if found.state != ok {
			broken++
		}
		lines = append(lines, found)
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
	if broken == bitsOf(allowed) {
		return fmt.Errorf("no fabric works between two processes of this machine: see the lines above")
	}
	return p.err
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

// reached is what a rank says of its way to another.
type reached struct {
	Fabric string
	Why    string // of fabrics that are not shared memory, or of what failed
	Detail string // of sockets: addresses and interface
}

// none stands in the table where a rank does not reach another.
const none = "none"

// answerTime is how long a rank may take to answer another in showRoutes.
const answerTime = 30 * time.Second

// showRoutes has all ranks send to all and prints the table on rank 0.
func showRoutes(w *banyan.World, out io.Writer) error {
	c := w.Comm()
	mine := told{Reached: greet(w)}
	mine.Counters = w.Counters()
	// A rank that rank 0 does not reach is not asked: it cannot answer.
	if c.Rank() != 0 {
		if mine.Reached[0].Fabric == none {
			return nil
		}
		return banyan.SendValue(c, mine, 0, 2)
	}
	all := make([]*told, c.Size())
	all[0] = &mine
	for rank := 1; rank < c.Size(); rank++ {
		if mine.Reached[rank].Fabric == none {
			continue
		}
		t, _, err := banyan.RecvValue[told](c, rank, 2)
		if err != nil {
			return err
		}
		all[rank] = &t
	}
	_, err := io.WriteString(out, routesTable(rowsOf(all), w.Node)+sockets(all))
	return err
}

// greet sends to every rank and receives from it, and says by what.
func greet(w *banyan.World) []reached {
	c := w.Comm()
	mine := make([]reached, c.Size())
	sent := make([]banyan.Request, c.Size())
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	names := interfaces()
	var hello [1]byte
	for i := range mine {
		rank := (c.Rank() + i) % c.Size() // not all to one at once
		if _, err := w.Route(rank); err != nil {
			mine[rank] = reached{Fabric: none, Why: err.Error()}
			continue
		}
		sent[rank] = c.Isend(hello[:], rank, 1)
	}
	for rank := range mine {
		if mine[rank].Fabric == none {
			continue
		}
		_, err := c.RecvContext(ctx, make([]byte, 1), rank, 1)
		if err == nil {
			_, err = sent[rank].WaitContext(ctx)
		}
		r, lost := w.Route(rank)
		if err = cmp.Or(err, lost); err != nil {
			mine[rank] = reached{Fabric: none, Why: fmt.Sprintf("by %v: %v", r, err)}
			continue
		}
		mine[rank] = reached{r.Fabric, strings.Join(append(r.WhyNot, r.Fabric+": "+r.Why), "; "), details(r, names)}
	}
	return mine
}

// widest is the number of ranks up to which each pair has its place in the table.
const widest = 32

// routesTable shows who reaches whom by what, and under it why by nothing faster.
// all[i][j] is what rank i says of rank j; all[i] is nil where rank i could not be
// asked.
func routesTable(all [][]reached, node func(int) int) string {
	var b strings.Builder
	n := len(all)
	nodes := 0
	for rank := range n {
		nodes = max(nodes, node(rank)+1)
	}
	fmt.Fprintf(&b, "# %s on %s\n", counted(n, "rank"), counted(nodes, "node"))
	if n <= widest {
		fmt.Fprintf(&b, "%6s %5s ", "rank", "node")
		for j := range n {
			fmt.Fprintf(&b, "%5d", j)
		}
		b.WriteByte('\n')
		for i, row := range all {
			fmt.Fprintf(&b, "%6d %5d ", i, node(i))
			for j := range n {
				fmt.Fprintf(&b, "%5s", cell(row, i, j))
			}
			b.WriteByte('\n')
		}
	}
	b.WriteString(reasons(all))
	return b.String()
}

func cell(row []reached, i, j int) string {
	switch {
	case i == j:
		return "-"
	case row == nil:
		return "?"
	}
	return row[j].Fabric
}

// reasons counts the pairs by fabric and kind of reason, the most frequent first,
// each with the reason of one pair; shared memory needs none.
func reasons(all [][]reached) string {
	type group struct {
		reached
		pairs [][2]int
	}
	var groups []*group
	find := func(r reached) *group {
		r.Detail = "" // each pair's is another
		if r.Fabric == route.Shm.String() {
			r.Why = ""
		}
		for _, g := range groups {
			if g.Fabric == r.Fabric && kind(g.Why) == kind(r.Why) {
				return g
			}
		}
		groups = append(groups, &group{reached: r})
		return groups[len(groups)-1]
	}
	for i, row := range all {
		for j := range row {
			if i != j {
				g := find(row[j])
				g.pairs = append(g.pairs, [2]int{i, j})
			}
		}
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return len(b.pairs) - len(a.pairs) })
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "%s: %s", g.Fabric, counted(len(g.pairs), "way"))
		if g.Why != "" {
			fmt.Fprintf(&b, ", as %d > %d: %s", g.pairs[0][0], g.pairs[0][1], g.Why)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// kind is a reason without what differs from pair to pair: the numbers of ranks
// and, in parentheses, what was compared.
func kind(why string) string {
	return particular.ReplaceAllString(why, "")
}

var particular = regexp.MustCompile(` \([^()]*\)|\b(rank|process) \d+`)

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
