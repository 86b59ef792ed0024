package figure

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rising is a chart of two lines over the sizes from 1 byte to 4 MiB.
func rising() Chart {
	median, tail := Series{Name: "median"}, Series{Name: "99th percentile"}
	for e := range 23 {
		size := math.Ldexp(1, e)
		median.Points = append(median.Points, Point{X: size, Y: 0.1 + size/20e3})
		tail.Points = append(tail.Points, Point{X: size, Y: 0.3 + size/15e3})
	}
	return Chart{
		Title:  "One-way latency",
		X:      Axis{Title: "message size (bytes)", Unit: Bytes},
		Y:      Axis{Title: "time (µs)"},
		Series: []Series{median, tail},
	}
}

func written(t *testing.T, format string, charts ...Chart) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, format, charts...))
	return b.Bytes()
}

// texts returns the texts of an SVG, and fails if it is not well-formed.
func texts(t *testing.T, svg []byte) []string {
	t.Helper()
	var out []string
	d := xml.NewDecoder(bytes.NewReader(svg))
	inText := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.CharData:
			if inText {
				out = append(out, strings.Trim(string(token), "\u00a0"))
			}
		case xml.EndElement:
			inText = false
		}
	}
}

func TestSVGSaysEverything(t *testing.T) {
	svg := written(t, "svg", rising())
	got := texts(t, svg)
	for _, want := range []string{
		"One-way latency", "message size (bytes)", "time (µs)", "median", "99th percentile",
		"1", "4", "1 Ki", "64 Ki", "1 Mi", "4 Mi", "0.1", "100",
	} {
		require.Contains(t, got, want)
	}
	require.Contains(t, string(svg[:300]), `width="675pt" height="405pt"`, "900 × 540 CSS pixels")
	require.NotContains(t, string(svg), "Sans;", "each font has a fallback")
	require.Contains(t, string(svg), "Arial,Helvetica,sans-serif;")
}

func TestSameInputSameBytes(t *testing.T) {
	for _, format := range []string{"svg", "png"} {
		require.Equal(t, written(t, format, rising()), written(t, format, rising()), format)
	}
}

// A linear axis has a zero, and a point there.
func TestLinear(t *testing.T) {
	c := rising()
	c.X, c.Y.Unit = Axis{Title: "failures", Unit: Linear}, Linear
	c.Series = []Series{{Name: "rerouted", Points: []Point{{X: 0, Y: 0}, {X: 8, Y: 100}, {X: 16, Y: 10}}}}
	got := texts(t, written(t, "svg", c))
	for _, want := range []string{"0", "2", "16", "20", "100"} {
		require.Contains(t, got, want)
	}
	c.Series[0].Points[0].X = -1
	require.ErrorContains(t, Write(io.Discard, "svg", c), "below zero on a linear one")
}

// The PNG has the lines' colours on white, and charts stand one below the other.
func TestPNGHasTheLines(t *testing.T) {
	img, err := png.Decode(bytes.NewReader(written(t, "png", rising(), rising())))
	require.NoError(t, err)
	require.Equal(t, image.Rect(0, 0, Width, 2*Height), img.Bounds())
	for half := range 2 {
		n := map[color.RGBA]int{}
		for py := half * Height; py < (half+1)*Height; py++ {
			for px := range Width {
				n[color.RGBAModel.Convert(img.At(px, py)).(color.RGBA)]++
			}
		}
		require.Greater(t, n[colours[0]], 300, "median")
		require.Greater(t, n[colours[1]], 200, "99th percentile, dashed")
		require.Zero(t, n[colours[2]])
		require.Greater(t, n[color.RGBA{255, 255, 255, 255}], Width*Height/2)
	}
}

func TestScales(t *testing.T) {
	for name, c := range map[string]struct {
		unit   Unit
		lo, hi float64
		want   string // first, labels between bars, last
	}{
		"all sizes":        {Bytes, 1, 4 << 20, "1|1 4 16 64 256 1_Ki 4_Ki 16_Ki 64_Ki 256_Ki 1_Mi 4_Mi|4.194304e+06"},
		"few sizes":        {Bytes, 1000, 5000, "512|512 1_Ki 2_Ki 4_Ki 8_Ki|8192"},
		"one size":         {Bytes, 8, 8, "4|4 8 16|16"},
		"a little beside":  {Bytes, 253, 4099, "253|256 512 1_Ki 2_Ki 4_Ki|4099"},
		"to 1 Gi":          {Bytes, 1, 1 << 30, "1|1 32 1_Ki 32_Ki 1_Mi 32_Mi 1_Gi|1.073741824e+09"},
		"to 1 Ei":          {Bytes, 1, 1 << 60, "1|1 1_Ki 1_Mi 1_Gi 1_Ti 1_Pi 1_Ei|1.152921504606847e+18"},
		"half a byte":      {Bytes, 0.5, 2, "0.5|0.5 1 2|2"},
		"one decade":       {Decimal, 0.13, 0.9, "0.1|0.1 0.2 0.5 1|1"},
		"two decades":      {Decimal, 3, 250, "2|2 5 10 20 50 100 200 500|500"},
		"many decades":     {Decimal, 0.013, 47000, "0.01|0.01 0.1 1 10 100 1000 10_000|50000"},
		"one value":        {Decimal, 2, 2, "1|1 2 5|5"},
		"exact ends":       {Decimal, 0.2, 50, "0.2|0.2 0.5 1 2 5 10 20 50|50"},
		"a thousand":       {Decimal, 1, 1000, "1|1 10 100 1000|1000"},
		"a large number":   {Decimal, 1e8, 3e8, "1e+08|1e+08 2e+08 5e+08|5e+08"},
		"below a thousand": {Decimal, 999, 1001, "500|500 1000 2000|2000"},
		"failures":         {Linear, 0, 496, "0|0 50 100 150 200 250 300 350 400 450 500|500"},
		"times":            {Linear, 815, 2734.8, "0|0 500 1000 1500 2000 2500 3000|3000"},
		"fractions":        {Linear, 0.1, 0.35, "0|0 0.05 0.1 0.15 0.2 0.25 0.3 0.35|0.35"},
		"none":             {Linear, 0, 0, "0|0 1|1"},
		"few failures":     {Count, 0, 4, "0|0 1 2 3 4|4"},
		"no failures":      {Count, 0, 0, "0|0 1|1"},
		"many failures":    {Count, 0, 496, "0|0 50 100 150 200 250 300 350 400 450 500|500"},
	} {
		s := newScale(c.unit, c.lo, c.hi)
		var labels []string
		for i, m := range s.marks {
			require.True(t, m.Value >= s.lo && m.Value <= s.hi, name)
			require.True(t, i == 0 || m.Value > s.marks[i-1].Value, name)
			if m.Label != "" {
				labels = append(labels, strings.ReplaceAll(m.Label, " ", "_"))
			}
		}
		f := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
		require.Equal(t, c.want, f(s.lo)+"|"+strings.Join(labels, " ")+"|"+f(s.hi), name)
		require.LessOrEqual(t, s.lo, c.lo, name)
		require.GreaterOrEqual(t, s.hi, c.hi, name)
	}
}

func TestWhatCannotBeDrawn(t *testing.T) {
	for want, change := range map[string]func(*Chart){
		"an axis has no title":    func(c *Chart) { c.Y.Title = "" },
		"the font has no '⁰'":     func(c *Chart) { c.Y.Title = "2²⁰ bit/s" },
		"at most 7 can be told":   func(c *Chart) { c.Series = make([]Series, 8) },
		"a series has no name":    func(c *Chart) { c.Series[1].Name = "" },
		"there are no points":     func(c *Chart) { c.Series = []Series{{Name: "none"}} },
		`"median": the point (0,`: func(c *Chart) { c.Series[0].Points[3].X = 0 },
		"-1) has no place":        func(c *Chart) { c.Series[0].Points[3].Y = -1 },
		"NaN) has no place":       func(c *Chart) { c.Series[0].Points[3].Y = math.NaN() },
		"+Inf) has no place":      func(c *Chart) { c.Series[0].Points[3].Y = math.Inf(1) },
	} {
		c := rising()
		change(&c)
		require.ErrorContains(t, Write(io.Discard, "svg", c), want)
	}
	require.ErrorContains(t, Write(io.Discard, "svg"), "no chart")
	require.ErrorContains(t, Write(io.Discard, "pdf", rising()), "svg and png are possible")
}

// As many series as there are colours, and a line without points among them.
func TestMostSeries(t *testing.T) {
	c := rising()
	for len(c.Series) < MaxSeries {
		c.Series = append(c.Series, c.Series[0])
	}
	c.Series[2].Points = nil
	written(t, "png", c)
}

func TestSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "latency.SVG")
	require.NoError(t, Check(path))
	require.NoError(t, Save(path, rising()))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, written(t, "svg", rising()), got)

	for _, bad := range []string{"latency", "latency.jpg", "svg"} {
		require.ErrorContains(t, Check(bad), bad+": the name must end in .svg or .png")
		require.Error(t, Save(bad, rising()))
	}
	c := rising()
	c.X.Title = ""
	require.ErrorContains(t, Save(path, c), "an axis has no title")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, got, after, "what cannot be drawn leaves the file alone")
}

// An interval is drawn as three strokes and lengthens the axis, but not much; marks alone have no
// line.
func TestIntervals(t *testing.T) {
	c := Chart{X: Axis{Title: "x", Unit: Linear}, Y: Axis{Title: "y", Unit: Linear},
		Series: []Series{{Name: "s", Points: []Point{{X: 1, Y: 10}, {X: 2, Y: 8}}}}}
	paths := func() int { return bytes.Count(written(t, "svg", c), []byte("stroke-width")) }
	plain := paths()
	c.Series[0].Points[1].Low, c.Series[0].Points[1].High = 6, 9
	require.Equal(t, plain+3, paths())
	require.NotContains(t, texts(t, written(t, "svg", c)), "14")
	c.Series[0].Points[1].High = 70
	require.Contains(t, texts(t, written(t, "svg", c)), "14")
	require.NotContains(t, texts(t, written(t, "svg", c)), "20")
	c.Series[0].Points[1].Low = -1
	require.ErrorContains(t, Write(io.Discard, "svg", c), "no place")
	c.Series[0].Points[1].Low, c.Series[0].Points[1].High = 0, 0
	c.Series[0].Dots = true
	require.Less(t, paths(), plain)
}

// Numbers of processes double, and are written in full.
func TestDoubling(t *testing.T) {
	c := Chart{X: Axis{Title: "processes", Unit: Doubling}, Y: Axis{Title: "y"},
		Series: []Series{{Name: "s", Points: []Point{{X: 2, Y: 1}, {X: 1024, Y: 2}}}}}
	require.Subset(t, texts(t, written(t, "svg", c)), []string{"2", "256", "1024"})
}
