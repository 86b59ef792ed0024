package figure

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// colours are those of Okabe and Ito, "Color Universal Design", without yellow, which a thin line
// on white does not show.
var colours = [...]color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, // blue
	{0xd5, 0x5e, 0x00, 0xff}, // vermilion
	{0x00, 0x9e, 0x73, 0xff}, // bluish green
	{0xcc, 0x79, 0xa7, 0xff}, // reddish purple
	{0xe6, 0x9f, 0x00, 0xff}, // orange
	{0x56, 0xb4, 0xe9, 0xff}, // sky blue
	{0x00, 0x00, 0x00, 0xff}, // black
}

// dashes and marks belong to the colours by position; their lengths in points.
var (
	dashes = [MaxSeries][]vg.Length{nil, {6, 3}, {2, 2}, {8, 3, 2, 3}, {12, 3}, {4, 4}, {1, 3}}
	marks  = [MaxSeries]draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{},
		draw.RingGlyph{}, draw.SquareGlyph{}, draw.PlusGlyph{},
	}
)

// maxMarked is the number of points above which marks would hide the line.
const maxMarked = 40

var (
	grey      = color.Gray{0x50}
	gridColor = color.Gray{0xe2}
)

// textSize is that of axis titles and of the legend, in points.
const textSize = 11

// sans is the font, of a size in points.
func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// plot builds the picture, on logarithmic axes of the logarithms of all numbers: with gonum's own
// LogScale, the room for an axis title is reckoned from the arithmetic middle of the axis, where
// the title does not stand, and a part of the picture stays empty.
//
// Precondition: check found nothing.
func (c *Chart) plot() *plot.Plot {
	p := plot.New()
	p.Title.Text = c.Title
	p.Title.Padding = 6
	p.Title.TextStyle.Font = sans(14)
	xlo, xhi := c.limits(x)
	ylo, yhi := c.withBars(c.limits(y))
	dress(&p.X, c.X, newScale(c.X.Unit, xlo, xhi))
	dress(&p.Y, c.Y, newScale(c.Y.Unit, ylo, yhi))
	grid := plotter.NewGrid()
	grid.Horizontal = draw.LineStyle{Color: gridColor, Width: 0.7}
	grid.Vertical = grid.Horizontal
	p.Add(grid)
	for i, s := range c.Series {
		if len(s.Points) > 0 {
			c.addSeries(p, i, s)
		}
	}
	p.Legend.TextStyle.Font = sans(textSize)
	p.Legend.ThumbnailWidth = 30
	p.Legend.Padding = 3
	p.Legend.Top, p.Legend.Left = c.freeCorner(p)
	p.Legend.XOffs, p.Legend.YOffs = 8, 8
	if !p.Legend.Left {
		p.Legend.XOffs = -24 // past the room for the last label of the axis
	}
	if p.Legend.Top {
		p.Legend.YOffs = -8
	}
	return p
}

// dress sets the range, the marks and the fonts of an axis.
func dress(a *plot.Axis, as Axis, s scale) {
	a.Min, a.Max = s.unit.place(s.lo), s.unit.place(s.hi)
	a.Tick.Marker = s
	a.Tick.Label.Font = sans(10)
	a.Tick.Color = grey
	a.Color = grey
	a.Label.Text = as.Title
	a.Label.TextStyle.Font = sans(textSize)
	a.Label.Padding = 4
	a.Padding = 0
}

// addSeries draws the i-th line and its marks.
func (c *Chart) addSeries(p *plot.Plot, i int, s Series) {
	points := make(plotter.XYs, len(s.Points))
	for k, pt := range s.Points {
		points[k] = plotter.XY{X: c.X.Unit.place(pt.X), Y: c.Y.Unit.place(pt.Y)}
	}
	look := draw.LineStyle{Color: colours[i], Width: 1.6, Dashes: dashes[i]}
	line := &plotter.Line{XYs: points, LineStyle: look}
	c.addBars(p, i, s)
	if len(points) > maxMarked && !s.Dots {
		p.Add(line)
		p.Legend.Add(legend(s), line)
		return
	}
	dots := &plotter.Scatter{XYs: points, GlyphStyle: draw.GlyphStyle{Color: colours[i], Radius: 2.6, Shape: marks[i]}}
	if s.Dots {
		dots.Radius = 4
		p.Add(dots)
		p.Legend.Add(legend(s), dots)
		return
	}
	p.Add(line, dots)
	p.Legend.Add(legend(s), line, dots)
}

// addBars draws the intervals of the i-th line.
func (c *Chart) addBars(p *plot.Plot, i int, s Series) {
	bars := &plotter.YErrorBars{LineStyle: draw.LineStyle{Color: colours[i], Width: 0.8}, CapWidth: 5}
	for _, pt := range s.Points {
		if pt.bar() {
			at := c.Y.Unit.place(pt.Y)
			bars.XYs = append(bars.XYs, plotter.XY{X: c.X.Unit.place(pt.X), Y: at})
			bars.YErrors = append(bars.YErrors,
				struct{ Low, High float64 }{at - c.Y.Unit.place(pt.Low), c.Y.Unit.place(pt.High) - at})
		}
	}
	if len(bars.XYs) > 0 {
		p.Add(aside{bars})
	}
}

// aside is drawn and does not lengthen the axes.
type aside struct{ plot.Plotter }

// legend is a series' name with room between it and its line, on whichever side that is. No-break
// spaces: an SVG viewer would drop others.
func legend(s Series) string { return "\u00a0" + s.Name + "\u00a0" }

// freeCorner returns the corner with the fewest points; of equals the first of top left, bottom
// right, top right, bottom left.
func (c *Chart) freeCorner(p *plot.Plot) (top, left bool) {
	const width, height = 0.36, 0.3 // of a corner, as a part of the picture
	best := math.MaxInt
	for _, corner := range []struct{ top, left bool }{{true, true}, {false, false}, {true, false}, {false, true}} {
		n := 0
		for _, s := range c.Series {
			for _, pt := range s.Points {
				px, py := p.X.Norm(c.X.Unit.place(pt.X)), p.Y.Norm(c.Y.Unit.place(pt.Y))
				if corner.left {
					px = 1 - px
				}
				if corner.top {
					py = 1 - py
				}
				if px > 1-width && py < height {
					n++
				}
			}
		}
		if n < best {
			best, top, left = n, corner.top, corner.left
		}
	}
	return top, left
}
