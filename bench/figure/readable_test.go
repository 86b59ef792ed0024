package figure

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"image/png"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
)

// shape is a path of an SVG: its corners, colour and whether it is filled.
type shape struct {
	corners []vg.Point
	style   string
}

// shapes returns the paths of an SVG in the order in which they are drawn.
func shapes(t *testing.T, svg []byte) (out []shape) {
	t.Helper()
	corner := regexp.MustCompile(`[ML]([-\d.e]+),([-\d.e]+)`)
	var doc struct {
		Groups []struct {
			Paths []struct {
				D     string `xml:"d,attr"`
				Style string `xml:"style,attr"`
			} `xml:"path"`
		} `xml:"g"`
	}
	require.NoError(t, xml.Unmarshal(svg, &doc))
	for _, g := range doc.Groups {
		for _, p := range g.Paths {
			s := shape{style: p.Style}
			for _, m := range corner.FindAllStringSubmatch(p.D, -1) {
				var at vg.Point
				_, err := fmt.Sscan(m[1]+" "+m[2], &at.X, &at.Y)
				require.NoError(t, err)
				s.corners = append(s.corners, at)
			}
			out = append(out, s)
		}
	}
	return out
}

// having are the shapes whose style has the words.
func having(all []shape, words ...string) (out []shape) {
	for _, s := range all {
		has := true
		for _, w := range words {
			has = has && strings.Contains(s.style, w)
		}
		if has {
			out = append(out, s)
		}
	}
	return out
}

// designs is a chart of failures with intervals, one of which leaves the picture, and a paper's value.
func designs() Chart {
	c := Chart{Title: "Barrier <8 ranks>", Subtitle: "shared memory · a processor · 2026-11-22 · commit 0123456",
		Note: "The last rank is late.",
		X:    Axis{Title: "failures", Unit: Count}, Y: Axis{Title: "time (µs)", Unit: Linear}}
	for _, name := range []string{"rerouted", "rebalanced"} {
		s := Series{Name: name}
		for f := range 4 {
			s.Points = append(s.Points, Point{X: float64(f), Y: 10, Low: 8, High: 12})
		}
		c.Series = append(c.Series, s)
	}
	c.Series[0].Points[3].High = 500
	c.Series = append(c.Series, Series{Name: "the paper", Dots: true, Points: []Point{{X: 2, Y: 10}}})
	return c
}

// A screen reader reads the title and the description.
func TestDescribed(t *testing.T) {
	var doc struct {
		Role  string `xml:"role,attr"`
		Title string `xml:"title"`
		Desc  string `xml:"desc"`
	}
	require.NoError(t, xml.Unmarshal(written(t, "svg", designs()), &doc))
	require.Equal(t, "img", doc.Role)
	require.Equal(t, "Barrier <8 ranks>", doc.Title)
	require.Equal(t, "time (µs) against failures: rerouted; rebalanced; the paper. shared memory · a processor · "+
		"2026-11-22 · commit 0123456 The last rank is late.", doc.Desc)
}

// Subtitle and note are in the picture, and refused where the font lacks a letter of them.
func TestWordsAround(t *testing.T) {
	c := designs()
	require.Subset(t, texts(t, written(t, "svg", c)), []string{c.Subtitle, c.Note})
	c.Subtitle = "2²⁰"
	require.ErrorContains(t, Write(&bytes.Buffer{}, "svg", c), "the font has no '⁰'")
	c.Fabric = "TCP"
	with := WithSource(func(fabric string) string { return fabric + " here" }, c, rising())
	require.Equal(t, []string{"TCP here", " here", "2²⁰"}, []string{with[0].Subtitle, with[1].Subtitle, c.Subtitle})
}

// The legend has a background, and no line, bar or mark is within it.
func TestLegendIsClear(t *testing.T) {
	for _, c := range []Chart{rising(), designs()} {
		all := shapes(t, written(t, "svg", c))
		boxes := having(all, "fill:#F5F5F5")
		require.Len(t, boxes, 1)
		lo, hi := boxes[0].corners[0], boxes[0].corners[0]
		for _, at := range boxes[0].corners {
			lo, hi = vg.Point{X: min(lo.X, at.X), Y: min(lo.Y, at.Y)}, vg.Point{X: max(hi.X, at.X), Y: max(hi.Y, at.Y)}
		}
		outside := 0
		for i := range c.Series {
			for _, s := range having(all, "stroke:"+hex(colours[i])) {
				above := s.corners[0].Y > lo.Y
				for _, at := range s.corners {
					require.Equal(t, above, at.Y > lo.Y && at.Y < hi.Y, "it is in the legend, or it is not: %v", s)
				}
				if !above {
					outside++
				}
			}
		}
		require.Positive(t, outside)
	}
}

// All lines in one place are visible: a line is narrower than those below it.
func TestLinesInOnePlace(t *testing.T) {
	c := rising()
	for len(c.Series) < MaxSeries {
		c.Series = append(c.Series, Series{Name: "same", Points: c.Series[0].Points})
	}
	all, before := shapes(t, written(t, "svg", c)), 100.0
	for i := range c.Series {
		var width float64
		for _, s := range having(all, "stroke:"+hex(colours[i])) {
			if len(s.corners) == len(c.Series[0].Points) {
				m := regexp.MustCompile(`stroke-width:([\d.]+)`).FindStringSubmatch(s.style)
				_, err := fmt.Sscan(m[1], &width)
				require.NoError(t, err)
			}
		}
		require.Positive(t, width)
		require.Less(t, width, before)
		before = width
	}
}

// Bars of two lines stand side by side; the one that leaves the picture ends with an arrow.
func TestBarsSideBySide(t *testing.T) {
	all := shapes(t, written(t, "svg", designs()))
	at := map[vg.Length]bool{}
	for i := range 2 {
		vertical := 0
		for _, s := range having(all, "stroke:"+hex(colours[i])) {
			if len(s.corners) == 2 && s.corners[0].X == s.corners[1].X {
				vertical++
				require.False(t, at[s.corners[0].X], "another bar is here")
				at[s.corners[0].X] = true
			}
		}
		require.Equal(t, 4, vertical)
	}
	arrows := 0
	for i := range 2 {
		for _, s := range having(all, "fill:"+hex(colours[i])) {
			if len(s.corners) == 3 { // the second line's marks have four corners, the first's are round
				arrows++
				require.Zero(t, i)
				require.Greater(t, s.corners[0].Y, s.corners[1].Y, "it points up")
			}
		}
	}
	require.Equal(t, 1, arrows)
}

// The paper's points are larger than the marks of lines, and are drawn after them.
func TestDotsOnTop(t *testing.T) {
	c := designs()
	c.Series[0], c.Series[2] = c.Series[2], c.Series[0]
	all := shapes(t, written(t, "svg", c))
	last := all[len(all)-1]
	require.Len(t, last.corners, 4)
	require.NotContains(t, last.style, "fill:#", "black")
	require.InDelta(t, 12, float64(last.corners[2].X-last.corners[0].X), 0.1)
}

// A band is an area below the line, and the axis has room for all of it.
func TestBand(t *testing.T) {
	c := designs()
	c.Series[0].Band = true
	all := shapes(t, written(t, "svg", c))
	areas := having(all, "fill-opacity:0.2")
	require.NotEmpty(t, areas)
	require.Contains(t, texts(t, written(t, "svg", c)), "500")
	require.Contains(t, texts(t, written(t, "svg", designs())), "16")

	c.Y.Unit = Decimal // which has no zero
	before := texts(t, written(t, "svg", c))
	c.Series[0].Points = append(c.Series[0].Points, Point{X: 3, Y: 10}) // without an interval
	require.Equal(t, before, texts(t, written(t, "svg", c)))
	c.Series[0].Points = c.Series[0].Points[4:]
	written(t, "svg", c)
}

// Counts have whole numbers at their marks.
func TestCountsAreWhole(t *testing.T) {
	c := designs()
	require.Subset(t, texts(t, written(t, "svg", c)), []string{"0", "1", "2", "3"})
	require.NotContains(t, texts(t, written(t, "svg", c)), "0.5")
	c.X.Unit = Linear
	require.Contains(t, texts(t, written(t, "svg", c)), "0.5")
}

// Many points do not hide their line.
func TestMarksOfManyPoints(t *testing.T) {
	c := rising()
	c.Series = c.Series[:1]
	for i := range 500 {
		c.Series[0].Points = append(c.Series[0].Points, Point{X: 4 << 20, Y: 1 + float64(i)})
	}
	filled := having(shapes(t, written(t, "svg", c)), "fill:"+hex(colours[0]))
	require.LessOrEqual(t, len(filled), 25)
	require.Greater(t, len(filled), 12)
}

// The card goes to the edges.
func TestWhiteToTheEdges(t *testing.T) {
	first := shapes(t, written(t, "svg", designs()))[0]
	require.Contains(t, first.style, "fill:#FFFFFF")
	require.Equal(t, vg.Point{}, first.corners[0])
	require.Equal(t, vg.Point{X: 675, Y: 405}, first.corners[2])
	img, err := png.Decode(bytes.NewReader(written(t, "png", designs())))
	require.NoError(t, err)
	for _, corner := range [][2]int{{0, 0}, {Width - 1, Height - 1}} {
		require.Equal(t, color.RGBA{255, 255, 255, 255}, color.RGBAModel.Convert(img.At(corner[0], corner[1])))
	}
}
