package figure

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The looks of the legend's box.
var (
	boxFill = color.Gray{0xf5}
	boxEdge = draw.LineStyle{Color: color.Gray{0xd0}, Width: 0.7}
)

// Lengths in points: of an entry's line, around the legend, between entries and below each part.
const (
	thumbWidth = 30
	boxMargin  = 5
	entryGap   = 14
	rowHeight  = 15
	partGap    = 5
)

// fallback is how much wider text may be in an SVG, where none of the fonts is installed.
const fallback = 1.15

// entry is one of the legend.
type entry struct {
	name  string
	looks []plot.Thumbnailer
}

// frame draws the parts around the axes: above them the title, the subtitle and the legend, which so hides no
// point, and below them the note. It returns the rest of the canvas.
func (c *Chart) frame(at draw.Canvas, entries []entry) draw.Canvas {
	write := func(words string, size vg.Length, ink color.Color, y vg.Length) {
		style := text.Style{Color: ink, Font: sans(size), XAlign: draw.XCenter, YAlign: draw.YTop,
			Handler: plot.DefaultTextHandler}
		at.FillText(style, vg.Point{X: at.Center().X, Y: y}, words)
	}
	if c.Title != "" {
		write(c.Title, titleSize, color.Black, at.Max.Y)
		at.Max.Y -= titleSize + partGap
	}
	if c.Subtitle != "" {
		write(c.Subtitle, smallSize, grey, at.Max.Y)
		at.Max.Y -= smallSize + partGap
	}
	if c.Note != "" {
		write(c.Note, smallSize, grey, at.Min.Y+smallSize)
		at.Min.Y += smallSize + 2*partGap
	}
	box := drawLegend(at, entries)
	at.Max.Y = box.Min.Y - 2*partGap
	return at
}

// drawLegend draws a box with as many entries in a row as there is room for, at the top, and returns it.
func drawLegend(at draw.Canvas, entries []entry) vg.Rectangle {
	style := text.Style{Color: color.Black, Font: sans(textSize), Handler: plot.DefaultTextHandler}
	var places []vg.Point // of each entry, from the box's upper left corner
	x, y, right := vg.Length(boxMargin), vg.Length(boxMargin), vg.Length(0)
	for _, e := range entries {
		width := thumbWidth + entryGap/2 + fallback*style.Width(e.name)
		if x > boxMargin && x+width+boxMargin > at.Max.X-at.Min.X {
			x, y = boxMargin, y+rowHeight
		}
		places = append(places, vg.Point{X: x, Y: y})
		right = max(right, x+width)
		x += width + entryGap
	}
	left := at.Center().X - (right+boxMargin)/2
	box := vg.Rectangle{Min: vg.Point{X: left, Y: at.Max.Y - y - rowHeight - boxMargin},
		Max: vg.Point{X: left + right + boxMargin, Y: at.Max.Y}}
	at.SetColor(boxFill)
	at.Fill(box.Path())
	at.SetLineStyle(boxEdge)
	at.Stroke(box.Path())
	for i, e := range entries {
		corner := vg.Point{X: box.Min.X + places[i].X, Y: box.Max.Y - places[i].Y - rowHeight}
		thumb := draw.Canvas{Canvas: at.Canvas, Rectangle: vg.Rectangle{Min: corner.Add(vg.Point{Y: 2}),
			Max: corner.Add(vg.Point{X: thumbWidth, Y: rowHeight - 2})}}
		for _, look := range e.looks {
			look.Thumbnail(&thumb)
		}
		at.FillText(style, corner.Add(vg.Point{X: thumbWidth + entryGap/2, Y: 4}), e.name)
	}
	return box
}
