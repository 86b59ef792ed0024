package paper

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/banyan-hpc/banyan/bench/report"
	"github.com/banyan-hpc/banyan/internal/affinity"
)

// storeKind is the kind of the file of measurements.
const storeKind = "paper"

// Store is the measurements of one machine and their file.
type Store struct {
	Path     string
	Measured Measured
	// Stored: something was written to the file.
	Stored bool

	file  *report.File
	taken *report.File // of the measurements
}

// Source is the line with the source of the numbers of a chart: predictions are of this run.
func (s *Store) Source(fabric string) string {
	if fabric == sharedMemory || fabric == noMessages {
		return s.taken.Source(fabric)
	}
	return s.file.Source(fabric)
}

// NewStore is for measurements of this machine, to be kept at a path.
func NewStore(path string) (*Store, error) {
	s := &Store{Path: path, file: report.Begin(storeKind)}
	s.taken = s.file
	cpus, err := affinity.Allowed()
	s.Measured.CPU, s.Measured.CPUs = s.file.Environment.CPU, len(cpus)
	return s, err
}

// OpenStore reads earlier measurements. With more, measurements are to be added, on the same
// machine.
func OpenStore(path string, more bool) (*Store, error) {
	s := &Store{Path: path, file: report.Begin(storeKind)}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f struct {
		report.File
		Results *Measured `json:"results"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, err
	}
	if f.Kind != storeKind || f.Version != report.Version || f.Results == nil {
		return nil, fmt.Errorf("it is of kind %q, version %d: want a file of ftbench paper, %q, version %d",
			f.Kind, f.Version, storeKind, report.Version)
	}
	s.Measured, s.taken = *f.Results, &f.File
	if here := s.file.Environment; more && (here.CPU != s.Measured.CPU || len(here.Affinity) != s.Measured.CPUs) {
		return nil, fmt.Errorf("it was measured on %d CPUs of %q, and here are %d of %q: go on there, or say "+
			"--no-measure",
			s.Measured.CPUs, s.Measured.CPU, len(here.Affinity), here.CPU)
	}
	return s, nil
}

// Keep stores the measurements so far.
func (s *Store) Keep() error {
	s.Stored = true
	return s.file.Write(s.Path, &s.Measured)
}
