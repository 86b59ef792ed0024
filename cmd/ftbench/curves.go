package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/banyan-hpc/banyan/bench/figure"
	"github.com/banyan-hpc/banyan/bench/netpipe"
)

// curve is one run in a picture of netpipe.
type curve struct {
	name string
	rows []netpipe.Row
}

// ownCurve is the curve of this run.
func ownCurve(points []netpipe.Point) curve {
	c := curve{name: "Banyan"}
	for _, p := range points {
		c.rows = append(c.rows, netpipe.Row{Bytes: p.Size, Mbps: p.Mbps, Seconds: p.Seconds})
	}
	return c
}

// readCurves reads the files of other runs: FILE or NAME=FILE.
func readCurves(with []string) ([]curve, error) {
	var out []curve
	for _, w := range with {
		name, path, named := strings.Cut(w, "=")
		if !named {
			name, path = filepath.Base(w), w
		}
		rows, err := netpipe.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("netpipe: --with %s: %w", w, err)
		}
		out = append(out, curve{name, rows})
	}
	return out, nil
}

// netpipeCharts are NetPIPE's two figures: throughput against size, and the signature, throughput
// against the time that a message takes.
func netpipeCharts(title string, curves []curve) []figure.Chart {
	throughput := figure.Axis{Title: "throughput (Mbps, 2^20 bit/s)"}
	size := figure.Chart{Title: title, X: messageSize, Y: throughput}
	signature := figure.Chart{Title: "Signature: throughput against time", X: figure.Axis{Title: "time (µs)"},
		Y: throughput}
	for _, c := range curves {
		bySize, byTime := figure.Series{Name: c.name}, figure.Series{Name: c.name}
		for _, r := range c.rows {
			if r.Mbps == 0 || r.Seconds == 0 { // another program's rounding
				continue
			}
			bySize.Points = append(bySize.Points, figure.Point{X: float64(r.Bytes), Y: r.Mbps})
			byTime.Points = append(byTime.Points, figure.Point{X: 1e6 * r.Seconds, Y: r.Mbps})
		}
		size.Series = append(size.Series, bySize)
		signature.Series = append(signature.Series, byTime)
	}
	return []figure.Chart{size, signature}
}
