package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Part is the result of a measurement for one machine.
type Part struct {
	Machine string
	// Comments are written below the head as comments, a line each.
	Comments []string
	// Measured are the knobs that this part decides, also those that keep their defaults and so are
	// not among the Lines.
	Measured []ID
	// Lines set knobs; text after the value is a comment.
	Lines []Line
}

// Line sets a knob.
type Line struct {
	ID      ID
	Value   int
	Comment string
}

// Merged is the text of a file with a part in the place of the machine's earlier one. Other parts,
// settings that hold everywhere, and settings of knobs that were not measured stay. A missing file is
// empty; one that does not parse is an error.
func Merged(path string, p *Part) (string, error) {
	old, err := readFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("settings: %w", err)
	}
	if _, err := Parse(path, old); err != nil {
		return "", fmt.Errorf("%w (the file was left as it is: mend or remove it)", err)
	}
	before, mine, after := split(string(old), p.Machine)
	var b strings.Builder
	b.WriteString(before)
	if before != "" && !strings.HasSuffix(before, "\n\n") {
		b.WriteString("\n")
	}
	b.WriteString(p.text(mine))
	b.WriteString(after)
	return b.String(), nil
}

// text formats the part, with the lines of the earlier one for other knobs.
func (p *Part) text(earlier []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s]\n", p.Machine)
	for _, r := range p.Comments {
		fmt.Fprintf(&b, "# %s\n", r)
	}
	for _, l := range p.Lines {
		k := Of(l.ID)
		fmt.Fprintf(&b, "%-24s # %s\n", k.Name+" = "+k.Format(l.Value), l.Comment)
	}
	for _, line := range earlier {
		key, _, _ := strings.Cut(uncomment(line), "=")
		if id, ok := find(strings.TrimSpace(key)); ok && !slices.Contains(p.Measured, id) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// split splits a text into the lines before a machine's part, the part's lines without its head,
// and the lines after it. A comment that ends the part after an empty line is taken for the next
// part's.
func split(text, machine string) (before string, mine []string, after string) {
	var head, tail strings.Builder
	where := 0 // 0 before the part, 1 in it, 2 behind
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			line += "\n"
		}
		if l := uncomment(line); strings.HasPrefix(l, "[") {
			switch name := plain(strings.TrimSuffix(l[1:], "]")); {
			case name == machine:
				where = 1
				continue
			case where == 1:
				where = 2
			}
		}
		switch where {
		case 0:
			head.WriteString(line)
		case 1:
			mine = append(mine, line)
		case 2:
			tail.WriteString(line)
		}
	}
	mine, rest := ending(mine)
	return head.String(), mine, rest + tail.String()
}

// ending cuts off the lines after the first empty line after the last setting.
func ending(lines []string) (own []string, rest string) {
	last := 0
	for i, l := range lines {
		if uncomment(l) != "" {
			last = i
		}
	}
	for i := last; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) == "" {
			return lines[:i], strings.Join(lines[i:], "")
		}
	}
	return lines, ""
}
