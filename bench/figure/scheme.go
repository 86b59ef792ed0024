package figure

import (
	"fmt"
	"image/color"
	"strings"
)

// scheme pairs the colours of a picture with those that it has on a dark page.
type scheme struct{ light, dark color.Color }

// schemes are the colours of a chart that are others on a dark page: of the card, its texts and lines, and of the
// series that it would hide.
var schemes = []scheme{
	{color.White, cardDark},
	{color.Black, inkDark},
	{grey, color.RGBA{0xb1, 0xba, 0xc4, 0xff}},
	{gridColor, color.RGBA{0x2d, 0x33, 0x3b, 0xff}},
	{boxFill, color.RGBA{0x16, 0x1b, 0x22, 0xff}},
	{boxEdge.Color, color.RGBA{0x44, 0x4c, 0x56, 0xff}},
	{colours[0], color.RGBA{0x2f, 0x8d, 0xe4, 0xff}},
	{colours[1], color.RGBA{0xf0, 0x73, 0x1b, 0xff}},
	{colours[2], color.RGBA{0x14, 0xb8, 0x8a, 0xff}},
	{colours[5], color.RGBA{0x8f, 0xd0, 0xf7, 0xff}},
}

// The background of a dark page and the text on it.
var (
	cardDark = color.RGBA{0x0d, 0x11, 0x17, 0xff}
	inkDark  = color.RGBA{0xe6, 0xed, 0xf3, 0xff}
)

// hex formats a colour for an SVG, without its opacity, and rounded down if that is less than one.
func hex(c color.Color) string {
	r, g, b, a := c.RGBA()
	part := func(v uint32) int { return int(float64(v) * (255 / float64(a))) }
	return fmt.Sprintf("#%02X%02X%02X", part(r), part(g), part(b))
}

// darkStyle is a style sheet that gives an SVG its dark colours if the reader has chosen a dark scheme. The
// attributes of the shapes are the light ones, also for programs that ignore the rule. Black is the colour of shapes
// without one.
func darkStyle() string {
	var b strings.Builder
	b.WriteString("<style>@media (prefers-color-scheme: dark) {\n")
	rule := func(selector, property string, c color.Color) {
		fmt.Fprintf(&b, "%s {%s: %s !important}\n", selector, property, hex(c))
	}
	for _, s := range schemes {
		for _, property := range []string{"fill", "stroke"} {
			rule(fmt.Sprintf("[style*=%q]", property+":"+hex(s.light)), property, s.dark)
		}
		if ink, ok := s.light.(color.RGBA); ok { // of a series, which may have a band
			rule(fmt.Sprintf("[style*=%q]", "fill:"+hex(shade(ink))), "fill", s.dark)
		}
	}
	b.WriteString("[style*=\"fill-opacity\"] {fill-opacity: 0.35 !important}\n") // on black a shade is fainter
	rule(`text:not([style*="fill:"]), path:not([style*="fill:"])`, "fill", inkDark)
	b.WriteString("}</style>\n")
	return b.String()
}
