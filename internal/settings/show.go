package settings

import (
	"fmt"
	"io"
	"strings"
)

// Write prints knobs with their values, in the form of a file: [Parse] accepts the output. With
// onlyChanged it prints only knobs that are set. The description of a knob is one line, however
// long: the caller wraps it.
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
		case Switch, Word, Path:
			unit = ""
		case Millis:
			unit = bareIsSeconds + "; "
		}
		fmt.Fprintf(&b, "# %s%s; default %s; %s\n", unit, k.Range(), k.Format(k.Default), k.Variable())
		fmt.Fprintf(&b, "%-24s # %s\n\n", k.Name+" = "+s.Format(id), s.Origin(id))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Shown is a knob with its value, as programs read it.
type Shown struct {
	Name     string `json:"name"`
	Value    string `json:"value"` // as in a file
	Origin   string `json:"origin"`
	Default  string `json:"default"`
	Unit     string `json:"unit"`
	Range    string `json:"range"`
	Variable string `json:"variable"`
	Meaning  string `json:"meaning"`
}

// Show returns the data that Write prints.
func (s *Set) Show(onlyChanged bool) []Shown {
	out := []Shown{}
	for i := range table {
		k, id := &table[i], ID(i)
		if onlyChanged && !s.Changed(id) {
			continue
		}
		out = append(out, Shown{
			Name: k.Name, Value: s.Format(id), Origin: s.Origin(id), Default: k.Format(k.Default),
			Unit: string(k.Unit), Range: k.Range(), Variable: k.Variable(), Meaning: strings.Join(k.Meaning, " "),
		})
	}
	return out
}

// Environ returns variables that fix every knob to the values here and keep files
// out: for processes that are to be measured.
func (s *Set) Environ() []string {
	out := []string{FileVariable + "=" + NoFile}
	for i := range table {
		out = append(out, table[i].Variable()+"="+s.Format(ID(i)))
	}
	return out
}
