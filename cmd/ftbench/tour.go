package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
)

type tourCmd struct {
	Dir     string        `default:"results" help:"Where the files go. Default: ${default}."`
	MinTime time.Duration `default:"500ms" help:"Time for a pass over one size; there are 23 sizes and three passes. Default: ${default}."`
}

// Help says what is measured.
func (tourCmd) Help() string {
	return `Measures latency and bandwidth of all sizes over shared memory, two ranks on two
cores, about half a minute each, and before, between and after them a ping-pong of a
bare cache line, which says what the machine is like at the moment. The tables are
printed and stored as text and JSON.

Example:
  ftbench tour --dir results`
}

// controls are the results in the tour's own file.
type controls struct {
	// PingPong is the control in seconds one way: before, between, after.
	PingPong []float64 `json:"ping_pong_seconds"`
	Files    []string  `json:"files"`
}

// Run makes the tour.
func (c *tourCmd) Run(to *call) error {
	file := report.Begin("tour")
	if err := os.MkdirAll(c.Dir, 0o777); err != nil {
		return err
	}
	var done controls
	if err := done.pingPong(to.out); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		args []string
	}{
		{"osu-latency", []string{"osu", "latency", "-z", "--precision", "3", "--min-time", c.MinTime.String()}},
		{"osu-bw", []string{"osu", "bw", "--min-time", c.MinTime.String()}},
	} {
		base := filepath.Join(c.Dir, step.name)
		if err := tee(base+".txt", to, append(step.args, "--json", base+".json")); err != nil {
			return err
		}
		done.Files = append(done.Files, base+".txt", base+".json")
		if err := done.pingPong(to.out); err != nil {
			return err
		}
	}
	fmt.Fprintf(to.out, "files: %s\n", c.Dir)
	return file.Write(filepath.Join(c.Dir, "tour.json"), done)
}

// tourSizes is the number of sizes: 1 byte to 4 MiB.
const tourSizes = 23

// tee runs this binary as two ranks; their output goes to a file too.
func tee(path string, to *call, args []string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	bar := progressbar.Start(to.err, strings.Join(args[:2], " "), tourSizes)
	err = startSelf(2, watched(&call{args, io.MultiWriter(to.out, f), to.err}, bar))
	bar.Stop()
	if err != nil {
		f.Close()
		return err
	}
	fmt.Fprintln(to.out)
	return f.Close()
}

// pingPong measures and prints the control.
func (r *controls) pingPong(w io.Writer) error {
	ctx := context.Background()
	self, err := selfPath()
	if err != nil {
		return err
	}
	cpus, err := peers.CPUs()
	if err != nil {
		_, err = fmt.Fprintf(w, "no control: %v\n\n", err)
		return err
	}
	c, err := peers.StartControl(ctx, cpus, func(dir string, side int) []string {
		return []string{self, "control", dir, strconv.Itoa(side)}
	})
	if err != nil {
		return err
	}
	defer c.Close()
	seconds, err := c.Measure(ctx)
	if err != nil {
		return err
	}
	r.PingPong = append(r.PingPong, seconds)
	_, err = fmt.Fprintf(w, "control: a cache line takes %.3f µs from core to core\n\n", 1e6*seconds)
	return err
}
