// Package figure draws the results of benchmarks: lines over two axes, as SVG or PNG.
//
//	err := figure.Save("latency.svg", figure.Chart{
//		Title:  "One-way latency",
//		X:      figure.Axis{Title: "message size (bytes)", Unit: figure.Bytes},
//		Y:      figure.Axis{Title: "time (µs)"},
//		Series: []figure.Series{{Name: "median", Points: points}},
//	})
//
// Axes are logarithmic unless they are [Linear] or of [Count]: sizes, times and rates span many powers of ten,
// and a factor looks the same everywhere. An axis of bytes has its ticks at powers of two and labels them 1,
// 32, 1 Ki, 1 Mi; one that doubles labels them in full; any other has them at powers of ten. A linear one
// contains zero, for series that do not begin at one; one of counts has only whole numbers.
//
// Lines differ in colour (the palette of Okabe and Ito, which colour-blind readers can distinguish), in dashes
// and in marks, so that a print in black and white can be read. Lines in the same place show: each is narrower
// than the one below it. The legend stands above the axes, clear of all points. A point may have an interval,
// which is a thin bar with a cap at either end, or an arrow where it leaves the picture; bars of several lines
// stand side by side. The intervals of a line may be a band instead. Values from elsewhere, such as a paper's,
// are large black diamonds on top. A chart of few sizes may have columns in place of lines.
//
// The background is a card to the edges of the picture. A PNG is white. An SVG is white or dark, as the reader
// prefers (prefers-color-scheme), and has a title and a description for screen readers.
//
// The same charts give the same bytes: no date but that in a subtitle, no random identifier. The fonts of a PNG
// are in the program; an SVG names them, with Arial and Helvetica, which are of the same widths, for machines
// that lack them.
//
// # Limits
//
// It measures nothing and is independent of benchmarks.
//
// Floor 8: it stands beside the harnesses and imports none of them; the command passes their results to it.
package figure
