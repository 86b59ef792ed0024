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

// colours are those of Okabe and Ito, "Color Universal Design", without yellow, which is invisible
// as a thin line on white.
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

// marked is about how many marks a line has at most: more would hide it.
const marked = 24

// bandOpacity leaves lines below a band visible.
const bandOpacity = 0x38

var (
	grey      = color.Gray{0x50}
	gridColor = color.Gray{0xe2}
)

// Sizes of text in points: of titles, of axis titles and the legend, of the rest.
const (
	titleSize = 14
	textSize  = 11
	smallSize = 9
)

// sans is the font, of a size in points.
func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// plot builds the picture, on logarithmic axes of the logarithms of all numbers: with gonum's own
// LogScale, the room for an axis title is reckoned from the arithmetic middle of the axis, where
// the title does not stand, and a part of the picture stays empty. Bands are below all lines; among the lines
// the first is the lowest and the broadest, so that lines in the same place show; dots are above.
//
// Precondition: check found nothing.
func (c *Chart) plot() (*plot.Plot, []entry) {
	p := plot.New()
	xlo, xhi := c.limits(x)
	ylo, yhi := c.withBars(c.limits(y))
	across := newScale(c.X.Unit, xlo, xhi)
	if c.Columns {
		across = placeScale(c.X.Unit, c.places())
		ylo /= room // the least has a column too
	}
	dress(&p.X, c.X, across)
	dress(&p.Y, c.Y, newScale(c.Y.Unit, ylo, yhi))
	// The bars of intervals must not cross the axis; Write leaves the same margin at the other end.
	p.Y.Padding = c.asideStep(p) * vg.Length(len(c.Series)) / 2
	grid := plotter.NewGrid()
	grid.Horizontal = draw.LineStyle{Color: gridColor, Width: 0.7}
	if !c.Columns {
		grid.Vertical = grid.Horizontal
	} else {
		grid.Vertical.Color = nil
	}
	p.Add(grid)
	var layers [4][]plot.Plotter // bands or columns, intervals, lines, dots
	var entries []entry
	for i, s := range c.Series {
		switch {
		case len(s.Points) == 0:
		case c.Columns:
			entries = append(entries, c.addColumns(i, s, &layers))
		default:
			entries = append(entries, c.addSeries(p, i, s, &layers))
		}
	}
	for _, layer := range layers {
		p.Add(layer...)
	}
	return p, entries
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

// addSeries puts the i-th line, its marks and its intervals into their layers.
func (c *Chart) addSeries(p *plot.Plot, i int, s Series, layers *[4][]plot.Plotter) entry {
	points := make(plotter.XYs, len(s.Points))
	for k, pt := range s.Points {
		points[k] = plotter.XY{X: c.X.Unit.place(pt.X), Y: c.Y.Unit.place(pt.Y)}
	}
	over := vg.Length(len(c.Series)-i) / vg.Length(len(c.Series)) // 1 for the first, least for the last
	if s.Dots {
		mark := draw.GlyphStyle{Color: color.White, Radius: 7.5, Shape: diamond{}}
		edge := &plotter.Scatter{XYs: points, GlyphStyle: mark}
		mark.Color, mark.Radius = color.Black, 6
		dots := &plotter.Scatter{XYs: points, GlyphStyle: mark}
		layers[3] = append(layers[3], aside{edge, 0}, aside{dots, 0})
		return entry{s.Name, []plot.Thumbnailer{dots}}
	}
	look := draw.LineStyle{Color: colours[i], Width: 1.2 + 1.4*over, Dashes: dashes[i]}
	line := &plotter.Line{XYs: points, LineStyle: look}
	dots := &plotter.Scatter{XYs: some(points, i, len(c.Series)),
		GlyphStyle: draw.GlyphStyle{Color: colours[i], Radius: 2.2 + 1.4*over, Shape: marks[i]}}
	dx := c.asideStep(p) * (vg.Length(i) - vg.Length(len(c.Series)-1)/2)
	layers[2] = append(layers[2], aside{line, dx}, aside{dots, dx})
	e := entry{s.Name, []plot.Thumbnailer{line, dots}}
	switch {
	case s.Band:
		band := c.band(i, s)
		layers[0] = append(layers[0], aside{band, 0})
		e.looks = append([]plot.Thumbnailer{band}, e.looks...)
	case c.hasBars(s):
		layers[1] = append(layers[1], aside{c.bars(i, s), dx})
	}
	return e
}

// some are all points where they are few, and of many each one after so many, at other places for each line.
func some(points plotter.XYs, i, lines int) plotter.XYs {
	step := (len(points) + marked - 1) / marked
	var out plotter.XYs
	for k := i * step / lines; k < len(points); k += step {
		out = append(out, points[k])
	}
	return out
}

// diamond is the mark of dots.
type diamond struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (diamond) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	r := style.Radius
	c.FillPolygon(style.Color, []vg.Point{{X: at.X - r, Y: at.Y}, {X: at.X, Y: at.Y + r}, {X: at.X + r, Y: at.Y},
		{X: at.X, Y: at.Y - r}})
}

// aside is drawn some points to the right, and does not lengthen the axes.
type aside struct {
	plot.Plotter
	dx vg.Length
}

// Plot implements plot.Plotter.
func (a aside) Plot(c draw.Canvas, p *plot.Plot) {
	c.Min.X += a.dx
	c.Max.X += a.dx
	a.Plotter.Plot(c, p)
}

// asideStep is the distance of neighbours, where several lines have intervals: their bars stand side by side.
func (c *Chart) asideStep(p *plot.Plot) vg.Length {
	const step, width = 6, 600 // of a cap and a space; about the length of the axis
	lines, nearest := 0, 1.0
	for _, s := range c.Series {
		if s.Band || c.Columns || !c.hasBars(s) {
			continue
		}
		lines++
		for k := 1; k < len(s.Points); k++ {
			if d := math.Abs(p.X.Norm(c.X.Unit.place(s.Points[k].X)) - p.X.Norm(c.X.Unit.place(s.Points[k-1].X))); d > 0 {
				nearest = min(nearest, d)
			}
		}
	}
	if lines < 2 {
		return 0
	}
	return min(step, vg.Length(nearest)*width/vg.Length(len(c.Series)+1))
}
