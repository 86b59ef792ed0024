// Package figure draws the results of benchmarks: lines over two axes, as SVG or PNG.
//
//	err := figure.Save("latency.svg", figure.Chart{
//		Title:  "One-way latency",
//		X:      figure.Axis{Title: "message size (bytes)", Unit: figure.Bytes},
//		Y:      figure.Axis{Title: "time (µs)"},
//		Series: []figure.Series{{Name: "median", Points: points}},
//	})
//
// Axes are logarithmic unless they are asked to be [Linear]: sizes, times and rates span many
// powers of ten, and a factor looks the same everywhere. An axis of bytes has its marks at powers
// of two and writes them as 1, 32, 1 Ki, 1 Mi; any other has them at 1, 2 and 5 times powers of
// ten. A linear one, for what begins at none, as failures do, has its zero in the picture.
//
// Lines differ in colour (the palette of Okabe and Ito, which colour-blind readers can
// distinguish), in dashes and, where the points are few, in marks, so that a print in black and
// white can be read. The legend stands in the corner that has the fewest points. A point may have
// an interval, which is a thin bar with a cap at either end.
//
// The same charts give the same bytes: no date, no random identifier. The fonts of a PNG are in the
// program; an SVG names them, with Arial and Helvetica, which are of the same widths, for machines
// that lack them.
//
// # Limits
//
// It measures nothing and knows no benchmark. Columns and areas it does not draw.
//
// Floor 8: it stands beside the harnesses and imports none of them; the command brings their
// results here.
package figure
