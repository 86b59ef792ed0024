package figure

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// hasBars reports whether a point of the series has an interval.
func (c *Chart) hasBars(s Series) bool { return slices.ContainsFunc(s.Points, Point.bar) }

// bars draws the intervals of a line; one that leaves the picture ends there with an arrow in place of a cap.
type bars struct{ plotter.YErrorBars }

// bars are the intervals of the i-th line.
func (c *Chart) bars(i int, s Series) bars {
	b := bars{plotter.YErrorBars{LineStyle: draw.LineStyle{Color: colours[i], Width: 0.9}, CapWidth: 5}}
	for _, pt := range s.Points {
		if pt.bar() {
			at := plotter.XY{X: c.X.Unit.place(pt.X), Y: c.Y.Unit.place(pt.Y)}
			b.add(at, c.Y.Unit.place(pt.Low), c.Y.Unit.place(pt.High))
		}
	}
	return b
}

// add adds the interval from low to high around a point, all as places on the axes.
func (b *bars) add(at plotter.XY, low, high float64) {
	b.XYs = append(b.XYs, at)
	b.YErrors = append(b.YErrors, struct{ Low, High float64 }{at.Y - low, high - at.Y})
}

// Plot implements plot.Plotter.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	b.YErrorBars.Plot(c, p)
	const half, length = 3, 5 // of an arrow
	trX, _ := p.Transforms(&c)
	arrow := func(x, tip, back vg.Length) {
		c.FillPolygon(b.Color, []vg.Point{{X: x, Y: tip}, {X: x - half, Y: back}, {X: x + half, Y: back}})
	}
	for i, e := range b.YErrors {
		x, at := trX(b.XYs[i].X), b.XYs[i].Y
		if p.Y.Norm(at+e.High) > 1+1e-9 {
			arrow(x, c.Max.Y, c.Max.Y-length)
		}
		if p.Y.Norm(at-e.Low) < -1e-9 {
			arrow(x, c.Min.Y, c.Min.Y+length)
		}
	}
}

// shade is the colour of a band.
func shade(ink color.RGBA) color.NRGBA { return color.NRGBA{ink.R, ink.G, ink.B, bandOpacity} }

// band is the area between the ends of the intervals of the i-th line, within the picture.
type band struct{ *plotter.Polygon }

func (c *Chart) band(i int, s Series) band {
	var low, high plotter.XYs
	for _, pt := range s.Points {
		if pt.bar() {
			at := c.X.Unit.place(pt.X)
			low = append(low, plotter.XY{X: at, Y: c.Y.Unit.place(pt.Low)})
			high = append(high, plotter.XY{X: at, Y: c.Y.Unit.place(pt.High)})
		}
	}
	slices.Reverse(low)
	return band{&plotter.Polygon{XYs: []plotter.XYs{append(high, low...)}, Color: shade(colours[i])}}
}

// Thumbnail implements plot.Thumbnailer: without an edge, which the polygon's own would draw.
func (b band) Thumbnail(c *draw.Canvas) {
	c.SetColor(b.Color)
	c.Fill(c.Rectangle.Path())
}
