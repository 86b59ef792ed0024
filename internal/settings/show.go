package settings

import (
	"fmt"
	"io"
	"strings"
)

// Write prints knobs with their values, in the form of a file: what it prints
// can be read by [Parse]. With onlyChanged the knobs that nobody has set are left
// out. What a knob means is one line, however long: the caller wraps it.
func (s *Set) Write(w io.Writer, onlyChanged bool) error {
	var b strings.Builder
	for i := range table {
		k, id := &table[i], ID(i)
		if onlyChanged && !s.Changed(id) {
			continue
		}
		fmt.Fprintf(&b, "# %s\n", strings.Join(k.Meaning, " "))
		unit := string(k.Unit) + "; "
		switch k.Unit {
		case Switch, Word:
			unit = ""
		case Millis:
			unit = bareIsSeconds + "; "
		}
		fmt.Fprintf(&b, "# %s%s; default %s; %s\n", unit, k.Range(), k.Format(k.Default), k.Variable())
		fmt.Fprintf(&b, "%-24s # %s\n\n", k.Name+" = "+k.Format(s.Int(id)), s.Origin(id))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Environ returns variables that fix every knob to the values here and keep files
// out: for processes that are to be measured.
func (s *Set) Environ() []string {
	out := []string{FileVariable + "=" + NoFile}
	for i := range table {
		out = append(out, table[i].Variable()+"="+table[i].Format(s.values[i].number))
	}
	return out
}
