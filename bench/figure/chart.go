package figure

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/font"

	"github.com/banyan-hpc/banyan/bench/stats"
)

// Chart is one picture: lines over two axes.
type Chart struct {
	Title string
	// Fabric is the fabric of the ranks, for a subtitle that [WithSource] makes.
	Fabric string
	// Subtitle is the source of the numbers: fabric, processors, date and commit.
	Subtitle string
	X, Y     Axis
	Series   []Series
	// Columns: each point is a column, those of one X side by side in the order of the series, with their
	// intervals. For few values of X, which have equal room each. On a logarithmic Y, which has no zero, columns
	// begin at the lower end of the axis, so that their heights are not in proportion.
	Columns bool
	Note    string // a line below the axes, such as the cause of a step
}

// WithSource returns the charts with the subtitles that source has for their fabrics.
func WithSource(source func(fabric string) string, charts ...Chart) []Chart {
	out := slices.Clone(charts)
	for i := range out {
		out[i].Subtitle = source(out[i].Fabric)
	}
	return out
}

// Axis is one of the two. Its range follows from the points.
type Axis struct {
	Title string // with the unit: "time (µs)"
	Unit  Unit
}

// Unit decides the places of the marks of an axis and their labels.
type Unit int

const (
	// Decimal has marks at powers of ten; where fewer than three are in the picture, also at 2 and 5 times them.
	Decimal Unit = iota
	// Bytes has marks at powers of two, written with the prefixes Ki, Mi, Gi.
	Bytes
	// Doubling has marks at powers of two, written in full.
	Doubling
	// Linear has no logarithms: it begins at zero and has marks at equal distances.
	Linear
	// Count is Linear with marks at whole numbers alone, for ranks and failures.
	Count
)

// linear reports whether the axis has no logarithms.
func (u Unit) linear() bool { return u == Linear || u == Count }

// place is the position of a value on the axis.
func (u Unit) place(v float64) float64 {
	if u.linear() {
		return v
	}
	return math.Log10(v)
}

// has reports whether a value has a place on the axis.
func (u Unit) has(v float64) bool {
	if u.linear() {
		return v >= 0 && v <= largest
	}
	return onLog(v)
}

// Series is one line and its entry in the legend.
type Series struct {
	Name   string
	Points []Point // in the order in which the line joins them
	// Dots: values from elsewhere, such as the paper's. Nothing joins them; their marks are large, and above all
	// lines.
	Dots bool
	// Band: the intervals are one shaded area in place of bars.
	Band bool
}

// Point is one place on a line. Numbers on a logarithmic axis are above zero, which it does not
// have; on a linear one they are not below.
type Point struct {
	X, Y float64
	// Low and High are the ends of Y's interval, drawn as a bar; both are 0 where there is none. An
	// end that would make the axis much longer than the points need lies outside of the picture, and an
	// arrow points to it.
	Low, High float64
}

// Estimate is the place of an estimate, with its interval if it has one. y converts values to those of the axis; nil
// leaves them.
func Estimate(x float64, v stats.Interval, y func(float64) float64) Point {
	if y == nil {
		y = func(v float64) float64 { return v }
	}
	p := Point{X: x, Y: y(v.Median)}
	if !v.Unbounded() {
		p.Low, p.High = min(y(v.Low), y(v.High)), max(y(v.Low), y(v.High))
	}
	return p
}

// bar reports whether there is an interval.
func (p Point) bar() bool { return p.Low != 0 || p.High != 0 }

// MaxSeries is the largest number of lines of a chart: more cannot be distinguished.
const MaxSeries = len(colours)

// check finds charts that cannot be drawn.
func (c *Chart) check() error {
	if c.X.Title == "" || c.Y.Title == "" {
		return errors.New("an axis has no title: name its quantity and unit")
	}
	for _, text := range []string{c.Title, c.Subtitle, c.X.Title, c.Y.Title, c.Note} {
		if r, ok := foreign(text); ok {
			return fmt.Errorf("%q: the font has no %q, and it would be missing in the picture", text, r)
		}
	}
	if len(c.Series) > MaxSeries {
		return fmt.Errorf("%d series: at most %d can be told apart", len(c.Series), MaxSeries)
	}
	if c.Columns && len(c.Series) == MaxSeries {
		return fmt.Errorf("%d series of columns: the last colour is that of their intervals", MaxSeries)
	}
	points := 0
	for _, s := range c.Series {
		if s.Name == "" {
			return errors.New("a series has no name: the legend needs one")
		}
		for _, p := range s.Points {
			if !c.X.Unit.has(p.X) || !c.Y.Unit.has(p.Y) || p.bar() && !(c.Y.Unit.has(p.Low) && c.Y.Unit.has(p.High)) {
				return fmt.Errorf("series %q: the point (%v, %v) has no place on logarithmic axes, or below zero on "+
					"a linear one: leave it out",
					s.Name, p.X, p.Y)
			}
		}
		points += len(s.Points)
	}
	if points == 0 {
		return errors.New("there are no points")
	}
	return nil
}

// foreign returns the first character that the font lacks; the superscript zero is one. Names of
// series are not asked about: they come from the user, and a picture with a gap is better than
// none.
func foreign(text string) (rune, bool) {
	face := font.DefaultCache.Lookup(sans(textSize), textSize).Face
	for _, r := range text {
		if i, err := face.GlyphIndex(nil, r); i == 0 || err != nil {
			return r, true
		}
	}
	return 0, false
}

// The limits keep a rounded range, a decade to each side, within the range of a float64.
const (
	smallest = 1e-100
	largest  = 1e100
)

func onLog(v float64) bool { return v >= smallest && v <= largest }

// limits returns the smallest and the largest result of the function of over the points.
func (c *Chart) limits(of func(Point) float64) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, s := range c.Series {
		for _, p := range s.Points {
			lo, hi = min(lo, of(p)), max(hi, of(p))
		}
	}
	return lo, hi
}

// room is how many times further than the points the axis goes for the ends of intervals.
const room = 1.5

// withBars widens the limits of the y axis for the intervals.
func (c *Chart) withBars(lo, hi float64) (float64, float64) {
	least, most := lo/room, hi*room
	for _, s := range c.Series {
		for _, p := range s.Points {
			switch {
			case s.Band && p.bar(): // the whole of it: an area has no arrow
				lo, hi = min(lo, p.Low), max(hi, p.High)
			case p.bar():
				lo, hi = min(lo, max(p.Low, least)), max(hi, min(p.High, most))
			}
		}
	}
	return lo, hi
}

func x(p Point) float64 { return p.X }
func y(p Point) float64 { return p.Y }
