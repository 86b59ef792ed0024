package figure

import (
	"image/color"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// luminance is that of WCAG 2, and contrast the ratio of two.
func luminance(c color.Color) float64 {
	part := func(v uint32) float64 {
		if s := float64(v) / 0xffff; s > 0.04045 {
			return math.Pow((s+0.055)/1.055, 2.4)
		} else {
			return s / 12.92
		}
	}
	r, g, b, _ := c.RGBA()
	return 0.2126*part(r) + 0.7152*part(g) + 0.0722*part(b)
}

func contrast(a, b color.Color) float64 {
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

// darkOf is a colour on a dark page.
func darkOf(c color.Color) color.Color {
	for _, s := range schemes {
		if hex(s.light) == hex(c) {
			return s.dark
		}
	}
	return c
}

// On a dark page texts have the contrast that WCAG 2 asks of texts, and lines, columns and marks that of graphics.
func TestDarkIsReadable(t *testing.T) {
	for _, card := range []color.Color{color.White, boxFill} {
		require.Less(t, luminance(darkOf(card)), 0.02)
		for _, ink := range []color.Color{color.Black, grey} {
			require.Greater(t, contrast(ink, card), 4.5)
			require.Greater(t, contrast(darkOf(ink), darkOf(card)), 4.5, hex(ink))
		}
		for _, c := range colours {
			require.Greater(t, contrast(darkOf(c), darkOf(card)), 4.5, hex(c))
		}
	}
	seen := map[string]bool{}
	for _, c := range colours {
		seen[hex(darkOf(c))] = true
	}
	require.Len(t, seen, MaxSeries, "each series has a colour of its own")
}

// Each colour of an SVG has its dark one in the style sheet, which holds in a dark scheme alone; those without can be
// seen on both.
func TestSchemeHasAllColours(t *testing.T) {
	both := map[string]bool{hex(colours[3]): true, hex(colours[4]): true}
	banded := designs()
	banded.Series[0].Band, banded.Series[1].Band = true, true
	for _, c := range []Chart{rising(), designs(), libraries(), banded} {
		svg := string(written(t, "svg", c))
		require.Equal(t, 1, strings.Count(svg, "@media (prefers-color-scheme: dark)"))
		head, body, found := strings.Cut(svg, "}</style>\n")
		require.True(t, found)
		used := regexp.MustCompile(`(?:fill|stroke):#[0-9A-F]{6}`).FindAllString(body, -1)
		require.NotEmpty(t, used)
		for _, u := range used {
			_, ink, _ := strings.Cut(u, ":")
			require.True(t, both[ink] || strings.Contains(head, `[style*="`+u+`"] {`), u)
		}
		require.Contains(t, head, `text:not([style*="fill:"])`, "black is not written")
	}
}

// The figures of the documentation have the scheme that is drawn now.
func TestFiguresOfTheDocumentation(t *testing.T) {
	files, err := filepath.Glob("../../docs/img/*.svg")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		svg, err := os.ReadFile(f)
		require.NoError(t, err)
		require.Contains(t, string(svg), "</desc>\n"+darkStyle()+"<g ", f)
	}
}
