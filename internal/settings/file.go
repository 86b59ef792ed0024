package settings

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// File is a parsed file of settings.
type File struct {
	Path    string
	entries []entry
	heads   []string       // the machines of the parts
	lines   map[string]int // where a head, or a knob in a part, stands
}

// entry is one line that sets a knob.
type entry struct {
	part  string // the machine; "": everywhere
	id    ID
	value int
	file  string // of a Path: its name, which begins at the folder of this file
	line  int
}

// Parse parses a file's text; the path is for errors, which name each wrong line and the possible
// values.
func Parse(path string, text []byte) (*File, error) {
	f := &File{Path: path, lines: map[string]int{}}
	var errs []error
	part, n := "", 0
	for raw := range strings.Lines(string(text)) {
		n++
		line := uncomment(raw)
		var err error
		switch {
		case line == "":
		case line[0] == '[':
			part, err = f.begin(line, n)
		default:
			err = f.set(part, line, n)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", path, n, err))
		}
	}
	return f, errors.Join(errs...)
}

// uncomment returns a line without its comment, which begins at a # that has
// nothing or a blank before it, and without blanks around.
func uncomment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			line = line[:i]
			break
		}
	}
	return strings.TrimSpace(line)
}

// begin reads the head of a part.
func (f *File) begin(line string, n int) (string, error) {
	name, ok := strings.CutSuffix(line[1:], "]")
	name = plain(name)
	if !ok || name == "" {
		return "", fmt.Errorf("%s: the head of a part is [MACHINE]; ftbench info prints the name of this one", line)
	}
	if earlier := f.lines["["+name]; earlier > 0 {
		return name, fmt.Errorf("[%s]: this part starts in line %d already: put the two together", name, earlier)
	}
	f.lines["["+name] = n
	f.heads = append(f.heads, name)
	return name, nil
}

// set reads "knob = value".
func (f *File) set(part, line string, n int) error {
	key, text, ok := strings.Cut(line, "=")
	key, text = strings.TrimSpace(key), strings.TrimSpace(text)
	if !ok || key == "" || text == "" {
		return fmt.Errorf("%q is no setting: knob = value is needed", line)
	}
	id, ok := find(key)
	if !ok {
		return unknown(key, func(k *Knob) string { return k.Name })
	}
	place := part + "]" + key
	if earlier := f.lines[place]; earlier > 0 {
		return fmt.Errorf("%s is set in line %d already", key, earlier)
	}
	f.lines[place] = n
	v, err := Of(id).Parse(text)
	if err != nil {
		return err
	}
	e := entry{part: part, id: id, value: v, line: n}
	if Of(id).Unit == Path {
		if e.file = text; !filepath.IsAbs(text) && !strings.EqualFold(text, NoFile) {
			e.file = filepath.Join(filepath.Dir(f.Path), text)
		}
	}
	f.entries = append(f.entries, e)
	return nil
}

// maxName is the length beyond which a name is no slip of the pen.
const maxName = 64

// unknown is the error for a name that no knob has, with the nearest that one
// has.
func unknown(name string, of func(*Knob) string) error {
	if len(name) > maxName {
		return fmt.Errorf("there is no knob %s…; ftbench info has the list", name[:maxName])
	}
	near := slices.MinFunc(table[:], func(a, b Knob) int {
		return distance(name, of(&a)) - distance(name, of(&b))
	})
	if distance(name, of(&near)) <= len(name)/2 {
		return fmt.Errorf("there is no knob %s; is %s meant? ftbench info has the list", name, of(&near))
	}
	return fmt.Errorf("there is no knob %s; ftbench info has the list", name)
}

// distance is the number of letters to add, remove or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0]++
		for j := range len(b) {
			replaced := left
			if a[i] != b[j] {
				replaced++
			}
			left = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// on returns the entries that apply on a machine, those of its part last.
func (f *File) on(machine string) []entry {
	var everywhere, here []entry
	for _, e := range f.entries {
		switch e.part {
		case "":
			everywhere = append(everywhere, e)
		case machine:
			here = append(here, e)
		}
	}
	return append(everywhere, here...)
}

// strange returns the machines of the parts if all parts are for other machines; nil if a part is
// for this one, or there are no parts.
func (f *File) strange(machine string) []string {
	var out []string
	for _, h := range f.heads {
		if h == machine {
			return nil
		}
		out = append(out, h)
	}
	return out
}
