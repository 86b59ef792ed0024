package table

import (
	"strings"
	"unicode/utf8"
)

// deeper is the additional indentation of a wrapped line.
const deeper = 2

// Wrap breaks the lines of a text that are longer than width columns between words. The rest of a
// line stands two columns further right, in a comment behind its #. A word that is too long stays
// whole.
func Wrap(text string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		rest := strings.TrimLeft(line, "# ")
		first := line[:len(line)-len(rest)]
		goesOn := first + strings.Repeat(" ", deeper)
		if strings.HasPrefix(first, "#") {
			goesOn = "#" + strings.Repeat(" ", len(first)-1+deeper)
		}
		b.WriteString(hang(first, goesOn, rest, width))
	}
	return b.String()
}

// Hang puts a text behind a label and wraps it in the columns right of the label.
func Hang(label, text string, width int) string {
	return hang(label, strings.Repeat(" ", columns(label)), text, width)
}

// hang breaks a text behind a label; goesOn begins each further line.
func hang(label, goesOn, text string, width int) string {
	var b strings.Builder
	line, empty := label, true
	for _, word := range strings.SplitAfter(text, " ") {
		if !empty && columns(line)+columns(strings.TrimRight(word, " \n")) > width {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line, empty = goesOn, true
		}
		if word == " " && empty && b.Len() > 0 {
			continue // a second space where the line was broken
		}
		line += word
		empty = empty && strings.TrimSpace(word) == ""
	}
	b.WriteString(line)
	return b.String()
}

// columns is the number of columns that a text takes.
func columns(text string) int { return utf8.RuneCountInString(text) }
