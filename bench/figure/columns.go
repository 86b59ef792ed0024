package figure

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// columnShare is how much of the room of a place on the x axis its columns take; the rest keeps places apart.
const columnShare = 0.8

// places are the values that have columns, in order.
func (c *Chart) places() (xs []float64) {
	for _, s := range c.Series {
		for _, p := range s.Points {
			xs = append(xs, p.X)
		}
	}
	slices.Sort(xs)
	return slices.Compact(xs)
}

// placeScale is an axis with a mark in the middle of each place, which are 1 apart.
func placeScale(u Unit, xs []float64) scale {
	s := scale{unit: Linear, lo: -0.5, hi: float64(len(xs)) - 0.5}
	for i, x := range xs {
		label := decimalLabel(x)
		if e := math.Log2(x); u == Bytes && e == math.Trunc(e) {
			label = binaryLabel(int(e))
		}
		s.marks = append(s.marks, plot.Tick{Value: float64(i), Label: label})
	}
	return s
}

// columns are those of one series: rectangles from the lower end of the y axis.
type columns struct {
	plotter.XYs         // the middles of their upper ends
	width       float64 // in units of the x axis
	ink         color.Color
}

// addColumns puts the columns of the i-th series and their intervals into their layers, the intervals above.
func (c *Chart) addColumns(i int, s Series, layers *[4][]plot.Plotter) entry {
	xs, width := c.places(), columnShare/float64(len(c.Series))
	cols := columns{width: width, ink: colours[i]}
	ends := bars{plotter.YErrorBars{LineStyle: draw.LineStyle{Color: color.Black, Width: 0.9}, CapWidth: 5}}
	for _, p := range s.Points {
		place, _ := slices.BinarySearch(xs, p.X)
		top := plotter.XY{X: float64(place) + width*(float64(i)-float64(len(c.Series)-1)/2), Y: c.Y.Unit.place(p.Y)}
		cols.XYs = append(cols.XYs, top)
		if p.bar() {
			ends.add(top, c.Y.Unit.place(p.Low), c.Y.Unit.place(p.High))
		}
	}
	layers[0] = append(layers[0], cols)
	layers[1] = append(layers[1], ends)
	return entry{s.Name, []plot.Thumbnailer{cols}}
}

// Plot implements plot.Plotter.
func (b columns) Plot(c draw.Canvas, p *plot.Plot) {
	trX, trY := p.Transforms(&c)
	for _, at := range b.XYs {
		left, right, top := trX(at.X-b.width/2), trX(at.X+b.width/2), trY(at.Y)
		c.FillPolygon(b.ink, []vg.Point{{X: left, Y: c.Min.Y}, {X: left, Y: top}, {X: right, Y: top}, {X: right, Y: c.Min.Y}})
	}
}

// Thumbnail implements plot.Thumbnailer.
func (b columns) Thumbnail(c *draw.Canvas) {
	c.SetColor(b.ink)
	c.Fill(c.Rectangle.Path())
}
