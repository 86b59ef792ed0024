package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/bench/doctor"
	"github.com/banyan-hpc/banyan/bench/report"
)

// leaves are the commands that the help lists, with the names of their flags.
func leaves(t *testing.T) map[string][]string {
	t.Helper()
	parser := newParser(&call{nil, io.Discard, io.Discard}, func(int) {})
	found := map[string][]string{}
	for _, leaf := range parser.Model.Leaves(true) {
		name := leaf.FullPath()
		found[name] = []string{}
		for _, group := range leaf.AllFlags(true) {
			for _, f := range group {
				found[name] = append(found[name], f.Name)
			}
		}
	}
	return found
}

// Each command that prints a result also has it for programs.
func TestEachResultAsJSON(t *testing.T) {
	none := regexp.MustCompile(`^ftbench (agent|help|completion|docs)\b`)
	all := leaves(t)
	require.Greater(t, len(all), 30)
	for name, flags := range all {
		if none.MatchString(name) {
			require.NotContains(t, flags, "json", name)
			continue
		}
		require.Contains(t, flags, "json", name)
	}
}

// stored decodes a file of results.
func stored[R any](t *testing.T, kind string, text []byte) (results R) {
	t.Helper()
	file := report.File{Results: &results}
	require.NoError(t, json.Unmarshal(text, &file), "%s", text)
	require.Equal(t, kind, file.Kind)
	require.Equal(t, report.Schema, file.Schema)
	return results
}

func TestInfoAsJSON(t *testing.T) {
	t.Setenv("BANYAN_SHM_EAGER", "8k")
	code, out, errs := ftbench(t, "info", "--json", "-")
	require.Zero(t, code, errs)
	require.Contains(t, errs, "shm.eager")
	r := stored[infoResults](t, "info", []byte(out))
	require.NotEmpty(t, r.Machine)
	changed := 0
	for _, k := range r.Knobs {
		if k.Name == "shm.eager" {
			require.Equal(t, "8k", k.Value)
			require.Equal(t, "BANYAN_SHM_EAGER", k.Origin)
			require.NotEmpty(t, k.Meaning)
		}
		if k.Origin != "default" {
			changed++
		}
	}
	require.Greater(t, len(r.Knobs), changed)

	file := filepath.Join(t.TempDir(), "info.json")
	code, out, errs = ftbench(t, "info", "--changed", "--json", file)
	require.Zero(t, code, errs)
	require.Contains(t, out, "shm.eager")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Len(t, stored[infoResults](t, "info", text).Knobs, changed)
}

func TestDoctorAsJSON(t *testing.T) {
	t.Setenv(fabricEnv, "") // the command sets it
	code, out, errs := ftbench(t, "doctor", "--fabric", "unix", "--json", "-")
	require.Zero(t, code, errs)
	require.Contains(t, errs, "two ranks reach each other")
	found := stored[doctorResults](t, "doctor", []byte(out)).Findings
	require.Equal(t, doctor.Finding{Section: "fabrics", State: "warning", What: "shm", Text: "left out",
		Cure: "allow it with BANYAN_FABRIC or --fabric"}, found[0])
	require.Equal(t, "unix", found[2].What)
	require.Equal(t, "ok", found[2].State)

	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(fabricEnv, "")
	code, out, errs = ftbench(t, "run", "-n", "3", "--fabric", "tcp", "--", self, "doctor", "--json", "-")
	require.Zero(t, code, errs)
	job := stored[doctor.JobFound](t, "doctor-job", []byte(out))
	require.Zero(t, job.Separated)
	require.Len(t, job.Ranks, 3)
	require.Equal(t, "tcp", job.Ranks[1].Links[2].Fabric)
	require.Regexp(t, `^tcp \S+ > \S+, `, job.Ranks[1].Links[2].Detail)
	require.Equal(t, "connection", job.Ranks[2].Detection.Evidence)
}
