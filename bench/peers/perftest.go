package peers

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Perftest measures with a program of perftest, which uses libibverbs and nothing else: two processes on the two CPUs whose
// messages go through one port of an RDMA adapter. Each job is a run of both.
type Perftest struct {
	// Program is ib_send_lat, ib_write_lat, ib_read_lat, ib_send_bw, ib_write_bw or ib_read_bw. The first two exchange
	// messages, and have half of a round trip; the third has the time of a read.
	Program string
	// Alone: one message is on its way, and the next one is posted after its completion; else as many as the job's window.
	Alone bool
	// Device, Port and GID are the port and the index of its address.
	Device    string
	Port, GID int
	CPUs      [2]int
	path, pin string
}

// Find looks for the program. The error is a [*NotInstalledError].
func (p *Perftest) Find() (err error) {
	if p.path, err = exec.LookPath(p.Program); err != nil {
		return &NotInstalledError{Peer: "perftest", Tool: p.Program, Packages: "perftest"}
	}
	p.pin, err = findPin("perftest")
	return err
}

// Words names the program and its version.
func (p *Perftest) Words(ctx context.Context) string {
	out, _ := exec.CommandContext(ctx, p.path, "-V").Output() // its exit status is not 0
	return fmt.Sprintf("perftest %s, %s", strings.TrimSpace(strings.TrimPrefix(string(out), "Version:")), p.Program)
}

// Command has the commands of both sides, for the record.
func (p *Perftest) Command() string {
	argv := strings.Join(p.argv(0, 0, Job{}), " ")
	return argv + "; " + argv + " 127.0.0.1"
}

// Run does one job and returns how long its messages took.
func (p *Perftest) Run(ctx context.Context, j Job) (time.Duration, error) {
	if _, err := parseJob(j.String()); err != nil {
		return 0, err
	}
	out, err := clientAndServer(ctx, startMax, func(port, side int) Command {
		return Command{Argv: p.argv(port, side, j), CPU: -1}
	})
	if err != nil {
		return 0, fmt.Errorf("peers: %s -s %d: %w", p.Program, j.Size, err)
	}
	each, err := parsePerftest(out, p.latency())
	if err != nil {
		return 0, fmt.Errorf("peers: %s -s %d: %w", p.Program, j.Size, err)
	}
	return time.Duration(each * j.Messages() * float64(time.Second)), nil
}

func (p *Perftest) latency() bool { return strings.HasSuffix(p.Program, "_lat") }

// leastExchanges is the least number that the programs accept.
const leastExchanges = 5

// argv are the arguments of a side. Both get the same, the client also the server's address.
func (p *Perftest) argv(port, side int, j Job) []string {
	argv := []string{p.pin, "-c", strconv.Itoa(p.CPUs[side]), p.path, "-F", "-d", p.Device, "-i", strconv.Itoa(p.Port),
		"-x", strconv.Itoa(p.GID), "-p", strconv.Itoa(port), "-s", strconv.Itoa(j.Size)}
	n := max(leastExchanges, j.Iters)
	if p.latency() {
		argv = append(argv, "--output=latency")
	} else {
		window := j.Window
		if n = max(leastExchanges, j.Iters*j.Window); p.Alone {
			window = 1
		}
		argv = append(argv, "--output=message_rate", "-N", "-t", strconv.Itoa(window))
	}
	if argv = append(argv, "-n", strconv.Itoa(n)); side == 1 {
		argv = append(argv, "127.0.0.1")
	}
	return argv
}

// parsePerftest reads the last line, a number, as seconds of a message: microseconds of a latency, else millions of messages a
// second.
func parsePerftest(out string, latency bool) (float64, error) {
	lines := strings.Fields(out)
	if len(lines) == 0 {
		return 0, fmt.Errorf("it has printed nothing")
	}
	v, err := strconv.ParseFloat(lines[len(lines)-1], 64)
	if err != nil || !(v > 0) || math.IsInf(v, 1) {
		return 0, fmt.Errorf("no number ends its output: %q", out)
	}
	if !latency {
		v = 1 / v
	}
	return v * 1e-6, nil
}
