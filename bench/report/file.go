package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/banyan-hpc/banyan/internal/wholefile"
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

// Write ends the run: it stores the file with its results at path. A reader sees the whole file or
// none; missing directories are made. A file that is not regular, such as a FIFO or /dev/null, is
// written to, not replaced.
func (f *File) Write(path string, results any) error {
	b, err := f.encode(results)
	if err != nil {
		return fmt.Errorf("report: encode %s: %w", path, err)
	}
	if err := wholefile.Write(path, b, 0); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// Print is Write to w.
func (f *File) Print(w io.Writer, results any) error {
	b, err := f.encode(results)
	if err != nil {
		return fmt.Errorf("report: encode: %w", err)
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func (f *File) encode(results any) ([]byte, error) {
	f.Results, f.Seconds = results, time.Since(f.Started).Seconds()
	b, err := json.MarshalIndent(f, "", "  ")
	return append(b, '\n'), err
}
