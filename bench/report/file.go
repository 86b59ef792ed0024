package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The schema of a file, see the package's documentation.
const (
	Schema  = "banyan-bench"
	Version = 1
)

// File is the content of a JSON file.
type File struct {
	Schema      string      `json:"schema"`
	Version     int         `json:"version"`
	Kind        string      `json:"kind"`
	Command     []string    `json:"command"`
	Started     time.Time   `json:"started"`
	Seconds     float64     `json:"seconds"`
	Environment Environment `json:"environment"`
	Results     any         `json:"results"`
}

// Begin describes a run of the given kind that starts now.
func Begin(kind string) *File {
	return &File{
		Schema: Schema, Version: Version, Kind: kind, Command: os.Args,
		Started: time.Now(), Environment: Capture(),
	}
}

// Write ends the run: it stores the file with its results at path. A reader
// sees the whole file or none; directories that lack are made.
func (f *File) Write(path string, results any) error {
	f.Results, f.Seconds = results, time.Since(f.Started).Seconds()
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("report: encode %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	part := path + ".part"
	if err := os.WriteFile(part, append(b, '\n'), 0o666); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
