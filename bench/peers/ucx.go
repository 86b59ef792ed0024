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

// UCX measures with ucx_perftest: tag_lat and tag_bw, two processes on the two CPUs, transports of
// UCX's own choice (on one node shared memory and CMA). Each job is a run of both processes.
type UCX struct {
	CPUs [2]int
	path string
}

// ucxTests are the names of the tests in ucx_perftest.
var ucxTests = map[Test]string{Latency: "tag_lat", Bandwidth: "tag_bw"}

// NewUCX looks for ucx_perftest. The error is a [*NotInstalledError].
func NewUCX(cpus [2]int) (*UCX, error) {
	path, err := exec.LookPath("ucx_perftest")
	if err != nil {
		return nil, &NotInstalledError{Peer: "ucx", Tool: "ucx_perftest", Packages: "ucx-utils"}
	}
	return &UCX{CPUs: cpus, path: path}, nil
}

// Command has the commands of both sides, for the record.
func (u *UCX) Command() string {
	return fmt.Sprintf("%s -p PORT -c %d; %s -p PORT -c %d -t TEST -s SIZE [-O WINDOW] -n ITERS -w WARMUP -f -v "+
		"localhost", u.path, u.CPUs[0], u.path, u.CPUs[1])
}

// Words returns the version, as ucx_info prints it, or "ucx_perftest".
func (u *UCX) Words(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "ucx_info", "-v").Output()
	if first, _, ok := strings.Cut(string(out), "\n"); err == nil && ok {
		return "UCX " + strings.TrimSpace(strings.TrimPrefix(first, "#"))
	}
	return "ucx_perftest"
}

// Run does one job and returns how long its iterations took. In tag_bw there is no answer per
// window: up to Window sends are outstanding all the time, which is never slower than windows.
func (u *UCX) Run(ctx context.Context, j Job) (time.Duration, error) {
	if _, err := parseJob(j.String()); err != nil {
		return 0, err
	}
	rate, err := u.rate(ctx, j)
	if err != nil {
		return 0, fmt.Errorf("peers: ucx_perftest -t %s -s %d: %w", ucxTests[j.Test], j.Size, err)
	}
	return time.Duration(j.Messages() / rate * float64(time.Second)), nil
}

// rate returns messages per second: one way, per message that follows another.
func (u *UCX) rate(ctx context.Context, j Job) (float64, error) {
	out, err := clientAndServer(ctx, startMax, func(port, side int) Command {
		argv := append([]string{u.path}, u.common(port, side)...)
		if side == 1 {
			argv = append(argv, u.options(j)...)
		}
		return Command{Argv: argv, CPU: -1}
	})
	if err != nil {
		return 0, err
	}
	return parseUCX(out)
}

func (u *UCX) common(port, side int) []string {
	return []string{"-p", strconv.Itoa(port), "-c", strconv.Itoa(u.CPUs[side])}
}

// options of the client, which sets the test for both. In tag_lat and tag_bw an iteration is one
// message, or one round trip.
func (u *UCX) options(j Job) []string {
	n, warmup := j.Iters, j.Warmup
	o := []string{"-t", ucxTests[j.Test], "-s", strconv.Itoa(j.Size), "-f", "-v"}
	if j.Test == Bandwidth {
		n, warmup = n*j.Window, warmup*j.Window
		o = append(o, "-O", strconv.Itoa(j.Window))
	}
	return append(o, "-n", strconv.Itoa(n), "-w", strconv.Itoa(warmup), "localhost")
}

// parseUCX reads the output of -f -v, a line of names and a line of values, and returns the overall
// message rate. The rate and not the latency is read because the latency is printed with three
// decimals of a µs. The rate of tag_lat counts messages one way after the other, that of tag_bw all
// messages.
func parseUCX(out string) (float64, error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, line := range lines[:max(0, len(lines)-1)] {
		names := strings.Split(strings.TrimSpace(line), ",")
		values := strings.Split(strings.TrimSpace(lines[i+1]), ",")
		if names[0] != "iterations" || len(names) != len(values) {
			continue
		}
		for k, name := range names {
			if name == "overall_mr" {
				rate, err := strconv.ParseFloat(values[k], 64)
				if err != nil || !(rate > 0 && rate <= math.MaxFloat64) {
					return 0, fmt.Errorf("message rate %q", values[k])
				}
				return rate, nil
			}
		}
	}
	return 0, fmt.Errorf("no line with overall_mr in its output: %q", out)
}
