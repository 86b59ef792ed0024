package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/banyan-hpc/banyan/bench/paper"
	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/internal/affinity"
)

// paperKind is that of the file in which measurements are kept.
const paperKind = "paper"

// paperStore is what has been measured, and the file of it.
type paperStore struct {
	path     string
	file     *report.File
	measured paper.Measured
	stored   bool
}

// open reads the measurements that are to be gone on from.
func (c *paperCmd) open() (*paperStore, error) {
	s := &paperStore{path: c.Measured, file: report.Begin(paperKind)}
	if s.path == "" {
		s.path = filepath.Join(c.Out, "measured.json")
		cpus, err := affinity.Allowed()
		if err != nil {
			return nil, err
		}
		s.measured.CPU, s.measured.CPUs = s.file.Environment.CPU, len(cpus)
		return s, checkFiles(s.path)
	}
	if err := s.read(); err != nil {
		return nil, usagef("paper: --measured %s: %w", s.path, err)
	}
	if !c.Measure {
		return s, nil
	}
	if here := s.file.Environment; here.CPU != s.measured.CPU || len(here.Affinity) != s.measured.CPUs {
		return nil, usagef("paper: --measured %s: it was measured on %d CPUs of %q, and here are %d of %q: go on there, or say --no-measure",
			s.path, s.measured.CPUs, s.measured.CPU, len(here.Affinity), here.CPU)
	}
	return s, checkFiles(s.path)
}

func (s *paperStore) read() error {
	b, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	var f struct {
		Kind    string
		Version int
		Results *paper.Measured
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	if f.Kind != paperKind || f.Version != report.Version || f.Results == nil {
		return fmt.Errorf("it is of kind %q, version %d: want what ftbench paper has stored, %q, version %d", f.Kind, f.Version, paperKind, report.Version)
	}
	s.measured = *f.Results
	return nil
}

// keep stores what has been measured so far.
func (s *paperStore) keep() error {
	s.stored = true
	return s.file.Write(s.path, &s.measured)
}

// kept is the file, if something was put into it.
func (s *paperStore) kept() string {
	if !s.stored {
		return ""
	}
	return s.path
}
