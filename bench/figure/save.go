package figure

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/color"
	"io"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/banyan-hpc/banyan/internal/wholefile"
)

// Width and Height are the size of one chart in pixels; several are placed one below the other.
const (
	Width  = 900
	Height = 540
)

// dpi makes a pixel of a PNG the same as a CSS pixel of an SVG.
const dpi = 96

// margin around each chart, in points.
const margin = 10

// Check reports whether Save can write to a file of that name: its ending must be .svg or .png. A
// command calls it before it measures.
func Check(path string) error {
	_, err := formatOf(path)
	return err
}

// formatOf returns "svg" or "png".
func formatOf(path string) (string, error) {
	switch format := strings.ToLower(strings.TrimPrefix(filepath.Ext(path), ".")); format {
	case "svg", "png":
		return format, nil
	}
	return "", fmt.Errorf("figure: %s: the name must end in .svg or .png", path)
}

// Save draws the charts, one below the other, into the file path, in the format of its ending. A
// reader sees the whole file or none; missing directories are made. A file that is not regular is
// written to, not replaced.
//
// Errors: an ending without a format, a chart that cannot be drawn (no points, no title on an axis,
// a number that is not above zero), a file that cannot be written.
func Save(path string, charts ...Chart) error {
	format, err := formatOf(path)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := Write(&b, format, charts...); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := wholefile.Write(path, b.Bytes(), 0); err != nil {
		return fmt.Errorf("figure: %w", err)
	}
	return nil
}

// Write is Save to w, in format "svg" or "png".
func Write(w io.Writer, format string, charts ...Chart) error {
	if len(charts) == 0 {
		return errors.New("figure: there is no chart")
	}
	for i := range charts {
		if err := charts[i].check(); err != nil {
			return fmt.Errorf("figure: chart %q: %w", charts[i].Title, err)
		}
	}
	width, height := pixels(Width), pixels(Height*len(charts))
	var canvas vg.CanvasWriterTo
	switch format {
	case "svg":
		canvas = vgsvg.New(width, height)
	case "png":
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))}
	default:
		return fmt.Errorf("figure: format %q: svg and png are possible", format)
	}
	sheet := draw.New(canvas)
	sheet.SetColor(color.White) // to the edges; schemes has the dark one
	sheet.Fill(sheet.Rectangle.Path())
	for i := range charts {
		part := draw.Tiles{Cols: 1, Rows: len(charts)}.At(sheet, 0, i)
		p, entries := charts[i].plot()
		rest := charts[i].frame(draw.Crop(part, margin, -margin, margin, -margin), entries)
		p.Draw(draw.Crop(rest, 0, -p.Y.Padding, 0, 0))
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return fmt.Errorf("figure: %w", err)
	}
	out := b.Bytes()
	if format == "svg" {
		out = described(withFallback(out), charts)
	}
	_, err := w.Write(out)
	return err
}

func pixels(n int) vg.Length { return vg.Length(n) * vg.Inch / dpi }

// withFallback names fonts of the same widths beside Liberation Sans: with the one name alone, a
// browser that lacks it would take a serif font.
func withFallback(svg []byte) []byte {
	return bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans;"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
}

// described adds the title and the description that screen readers read, and the dark colours, after the opening
// tag.
func described(svg []byte, charts []Chart) []byte {
	var titles, words []string
	for _, c := range charts {
		var names []string
		for _, s := range c.Series {
			names = append(names, s.Name)
		}
		titles = append(titles, c.Title)
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s against %s: %s. %s %s", c.Y.Title, c.X.Title,
			strings.Join(names, "; "), c.Subtitle, c.Note)))
	}
	var b bytes.Buffer
	head, body, _ := bytes.Cut(svg, []byte("xlink\">\n"))
	b.Write(head)
	b.WriteString("xlink\" role=\"img\" aria-labelledby=\"title desc\">\n")
	for _, part := range [][2]string{{"title", strings.Join(titles, "; ")}, {"desc", strings.Join(words, " ")}} {
		fmt.Fprintf(&b, "<%s id=\"%[1]s\">", part[0])
		_ = xml.EscapeText(&b, []byte(part[1])) // a buffer does not fail
		fmt.Fprintf(&b, "</%s>\n", part[0])
	}
	b.WriteString(darkStyle())
	b.Write(body)
	return b.Bytes()
}
