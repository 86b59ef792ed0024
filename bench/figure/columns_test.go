package figure

import (
	"bytes"
	"image/png"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
)

// libraries is a chart of two libraries at three sizes, of which one has an interval that leaves the picture.
func libraries() Chart {
	c := Chart{Columns: true, X: Axis{Title: "message size (bytes)", Unit: Bytes}, Y: Axis{Title: "Mbps", Unit: Linear}}
	for i, name := range []string{"ours", "theirs"} {
		s := Series{Name: name}
		for k, size := range []float64{1, 65536, 100_000} {
			y := float64(10 * (k + 1 + i))
			s.Points = append(s.Points, Point{X: size, Y: y, Low: 0.9 * y, High: 1.1 * y})
		}
		c.Series = append(c.Series, s)
	}
	c.Series[1].Points[0].High = 900
	return c
}

// extent gives the corners of a shape that are lowest and highest.
func extent(s shape) (lo, hi vg.Point) {
	lo, hi = s.corners[0], s.corners[0]
	for _, at := range s.corners {
		lo, hi = vg.Point{X: min(lo.X, at.X), Y: min(lo.Y, at.Y)}, vg.Point{X: max(hi.X, at.X), Y: max(hi.Y, at.Y)}
	}
	return lo, hi
}

// Columns of one size stand side by side, in proportion to their values on a linear axis, and sizes have equal room.
func TestColumns(t *testing.T) {
	svg := written(t, "svg", libraries())
	require.Subset(t, texts(t, svg), []string{"1", "64 Ki", "100 000", "0"})
	all := shapes(t, svg)
	ours, theirs := having(all, "fill:"+hex(colours[0])), having(all, "fill:"+hex(colours[1]))
	require.Len(t, ours, 1+3, "one in the legend")
	require.Len(t, theirs, 1+3)
	var left []vg.Length
	for k := range 3 {
		a, b := ours[k], theirs[k]
		if lo, _ := extent(ours[0]); lo.Y > 300 { // the legend's is drawn first
			a, b = ours[k+1], theirs[k+1]
		}
		alo, ahi := extent(a)
		blo, bhi := extent(b)
		require.InDelta(t, float64(ahi.X), float64(blo.X), 0.02, "they touch and do not overlap")
		require.Equal(t, alo.Y, blo.Y, "from one ground")
		require.InDelta(t, float64(k+2)/float64(k+1), float64((bhi.Y-blo.Y)/(ahi.Y-alo.Y)), 0.01)
		left = append(left, alo.X)
	}
	require.InDelta(t, float64(left[1]-left[0]), float64(left[2]-left[1]), 0.02)
}

// The interval of a column is above it, in its middle, and ends with an arrow where it leaves the picture.
func TestIntervalsOfColumns(t *testing.T) {
	all := shapes(t, written(t, "svg", libraries()))
	last := 0
	for i, s := range all {
		if len(having([]shape{s}, "fill:"+hex(colours[0]))) > 0 || len(having([]shape{s}, "fill:"+hex(colours[1]))) > 0 {
			last = i
		}
	}
	upright, arrows := 0, 0
	for _, s := range all[last:] {
		switch {
		case len(s.corners) == 2 && s.corners[0].X == s.corners[1].X && len(having([]shape{s}, "stroke:#000000")) > 0:
			upright++
		case len(s.corners) == 3:
			arrows++
		}
	}
	require.Equal(t, 6, upright)
	require.Equal(t, 1, arrows)
	plain := libraries()
	for _, s := range plain.Series {
		for i := range s.Points {
			s.Points[i].Low, s.Points[i].High = 0, 0
		}
	}
	require.Empty(t, having(shapes(t, written(t, "svg", plain)), "stroke:#000000"))
}

// On a logarithmic axis the least value has a column too. The colour of the intervals is no column's.
func TestColumnsOnLogarithms(t *testing.T) {
	c := libraries()
	c.Y.Unit = Decimal
	c.Series[0].Points[0] = Point{X: 1, Y: 0.01}
	least := having(shapes(t, written(t, "svg", c)), "fill:"+hex(colours[0]))
	require.Len(t, least, 1+3)
	for _, s := range least {
		lo, hi := extent(s)
		require.Greater(t, float64(hi.Y-lo.Y), 5.0)
	}
	img, err := png.Decode(bytes.NewReader(written(t, "png", c)))
	require.NoError(t, err)
	require.Equal(t, Width, img.Bounds().Dx())
	for len(c.Series) < MaxSeries {
		c.Series = append(c.Series, c.Series[0])
	}
	require.ErrorContains(t, Write(io.Discard, "svg", c), "7 series of columns")
}
