package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
	"github.com/banyan-hpc/banyan/bench/compare/suite"
	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/osu"
	"github.com/banyan-hpc/banyan/bench/peers"
	"github.com/banyan-hpc/banyan/bench/progressbar"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/bench/table"
)

type tourCmd struct {
	Dir     string        `default:"results" help:"Where the files go. Default: ${default}."`
	MinTime time.Duration `default:"500ms" help:"Time for a pass over one size; there are 23 sizes and three passes. Default: ${default}."`
	paceFlags
	JSON string `placeholder:"FILE" help:"Store all results and the environment there too; -: print them, and the tables on standard error."`
}

// Help describes the measurements.
func (tourCmd) Help() string {
	return `Measures latency and bandwidth of all sizes over shared memory, two ranks on two
cores, about half a minute each, and before, between and after them a ping-pong of a
bare cache line, which says what the machine is like at the moment. The tables are
printed, stored as text and JSON, and drawn as latency.svg (median and 99th
percentile against size) and bandwidth.svg.

Example:
  ftbench tour --dir results`
}

// controls are the results in the tour's own file.
type controls struct {
	// PingPong is the control in seconds one way: before, between, after.
	PingPong []float64 `json:"ping_pong_seconds"`
	Files    []string  `json:"files"`
	// Measured are the results of the tour's commands: osu latency and osu bw.
	Measured []osuResults `json:"measured"` // each contains its cut by --max-time
}

// Run makes the tour.
func (c *tourCmd) Run(to *call) error {
	if err := c.checkTime(); err != nil {
		return err
	}
	c.shorter(&c.MinTime, 20*time.Millisecond)
	if c.MinTime < 0 {
		return usagef("tour: --min-time %v: a time from 0 on is needed", c.MinTime)
	}
	ctx, stop := interruptible()
	defer stop()
	return orInterrupt(ctx, c.tour(ctx, to))
}

func (c *tourCmd) tour(ctx context.Context, to *call) error {
	file := report.Begin("tour")
	if err := checkFiles(filepath.Join(c.Dir, "tour.json"), c.JSON); err != nil { // makes the directory
		return err
	}
	done := controls{PingPong: []float64{}, Files: []string{}}
	words := to.words(c.JSON)
	limits := []budget.Budget{maxTimeFlag{c.MaxTime * 2 / 3}.budget(), c.budget()} // latency has two passes of three
	announce(to.err, "tour", time.Duration(tourSizes*tourPasses)*(c.MinTime*5/4+10*time.Millisecond), c.MaxTime)
	if err := done.pingPong(ctx, words.out); err != nil {
		return err
	}
	for i, step := range []struct {
		name, picture string
		chart         func([]osu.Point) figure.Chart
		args          []string
	}{
		{"osu-latency", "latency.svg", latencyChart,
			[]string{"osu", "latency", "-z", "--precision", "3"}},
		{"osu-bw", "bandwidth.svg", bandwidthChart, []string{"osu", "bw"}},
	} {
		base := filepath.Join(c.Dir, step.name)
		step.args = append(step.args, "--min-time", c.MinTime.String())
		if c.Quick {
			step.args = append(step.args, "--quick")
		}
		if err := tee(base+".txt", words, append(step.args, "--json", base+".json"), limits[i].Export()...); err != nil {
			return err
		}
		picture := filepath.Join(c.Dir, step.picture)
		measured, err := draw(base+".json", picture, step.chart)
		if err != nil {
			return err
		}
		done.Measured = append(done.Measured, measured)
		done.Files = append(done.Files, base+".txt", base+".json", picture)
		if err := done.pingPong(ctx, words.out); err != nil {
			return err
		}
	}
	own := filepath.Join(c.Dir, "tour.json")
	if err := file.Write(own, done); err != nil {
		return err
	}
	if err := to.store(file, c.JSON, done); err != nil {
		return err
	}
	files := append(done.Files, own)
	if c.JSON != "" {
		files = append(files, c.JSON)
	}
	return table.Printf(words.out, "files: %s\n", strings.Join(files, " "))
}

// draw makes a picture of the points in a file of results, and returns the results.
func draw(file, picture string, chart func([]osu.Point) figure.Chart) (osuResults, error) {
	var stored struct {
		report.File
		Results osuResults `json:"results"`
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return stored.Results, err
	}
	if err := json.Unmarshal(b, &stored); err != nil {
		return stored.Results, fmt.Errorf("read %s: %w", file, err)
	}
	return stored.Results, figure.Save(picture, figure.WithSource(stored.Source, chart(stored.Results.Points))...)
}

// latencyChart shows the median and the 99th percentile; the percentiles are those of osu's -z.
func latencyChart(points []osu.Point) figure.Chart {
	median := figure.Series{Name: "median, band to the 99th percentile", Band: true}
	for _, p := range points {
		us := 1e6 * p.Percentiles[0]
		median.Points = append(median.Points, figure.Point{X: float64(p.Size), Y: us, Low: us,
			High: 1e6 * p.Percentiles[len(p.Percentiles)-1]})
	}
	return figure.Chart{
		Title: "Latency, two ranks", Fabric: fabricName("shm"),
		X: messageSize, Y: figure.Axis{Title: "one-way time (µs)"},
		Series: []figure.Series{median},
	}
}

// bandwidthChart shows the mean.
func bandwidthChart(points []osu.Point) figure.Chart {
	mean := figure.Series{Name: "window of 64"}
	for _, p := range points {
		mean.Points = append(mean.Points, figure.Point{X: float64(p.Size), Y: float64(p.Size) / p.Seconds / 1e6})
	}
	return figure.Chart{
		Title: "Bandwidth, one way", Fabric: fabricName("shm"),
		X: messageSize, Y: figure.Axis{Title: "bandwidth (MB/s, 10⁶ bytes)"},
		Series: []figure.Series{mean},
	}
}

// messageSize is the axis below every picture of sizes.
var messageSize = figure.Axis{Title: "message size (bytes)", Unit: figure.Bytes}

// tourSizes is the number of sizes: 1 byte to 4 MiB. Latency has two passes over each, bandwidth one.
const tourSizes, tourPasses = 23, 3

// tee runs this binary as two ranks; their output goes to a file too.
func tee(path string, to *call, args []string, export ...string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	both := &forked{file: f, out: to.out}
	bar := progressbar.Start(to.err, strings.Join(args[:2], " "), tourSizes)
	err = startSelf(2, watched(&call{args, both, to.err}, bar, ""), export...)
	bar.Stop()
	if err = errors.Join(err, both.failed, f.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintln(to.out)
	return err
}

// forked writes to a file and passes the text on. The file gets everything, even if the passed-on
// text is not read.
type forked struct {
	file   io.Writer
	out    io.Writer // nil once it has failed
	failed error     // of either
}

// Write implements io.Writer. It fails for neither, so that the ranks go on.
func (w *forked) Write(b []byte) (int, error) {
	_, err := w.file.Write(b)
	if w.out != nil {
		if _, passed := w.out.Write(b); passed != nil {
			w.out = nil
			err = errors.Join(err, fmt.Errorf("tour: the table was not printed: %w", passed))
		}
	}
	w.failed = errors.Join(w.failed, err)
	return len(b), nil
}

// pingPong measures and prints the control.
func (r *controls) pingPong(ctx context.Context, w io.Writer) error {
	self, err := selfPath()
	if err != nil {
		return err
	}
	cpus, err := peers.CPUs()
	if err != nil {
		_, err = fmt.Fprintf(w, "no control: %v\n\n", err)
		return err
	}
	c, err := suite.StartControl(ctx, self, cpus)
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
