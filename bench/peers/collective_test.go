package peers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseCollective(t *testing.T) {
	op, err := ParseCollective("bcast:1024")
	require.NoError(t, err)
	require.Equal(t, Collective{Op: "bcast", Bytes: 1024}, op)
	again := Collective{Op: "bcast", Bytes: 8, Rewritten: true}
	op, err = ParseCollective(again.String())
	require.NoError(t, err)
	require.Equal(t, again, op)
	for _, text := range []string{"", "bcast", "bcast:", "bcast:-1", "bcast:x", "bcast:8:", "bcast:rewritten"} {
		_, err := ParseCollective(text)
		require.Error(t, err, text)
	}
}

// A line has the mean and, from programs that report it, the longest call.
func TestCollectiveTimes(t *testing.T) {
	ops := []Collective{{Op: "barrier"}, {Op: "bcast", Bytes: 8, Rewritten: true}}
	mean, longest, err := parseCollectives("barrier 0 1500.0 20000.0\nbcast 8 250.0\n", ops)
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{1.5e-6, 2.5e-7}, mean, 1e-12)
	require.InDeltaSlice(t, []float64{2e-5, 0}, longest, 1e-12)
	for _, text := range []string{"", "barrier 0 1 2\n", "barrier 0 1 2\nbcast 8 x\n", "barrier 0 1 2\nbcast 8 1 -1\n",
		"barrier 0 1 2\nbcast 8 1 2 3\n", "barrier 0 1 2\nbcast 4 1 2\n"} {
		_, _, err := parseCollectives(text, ops)
		require.Error(t, err, text)
	}
}

// OSU's tables have a line for each size, that of a barrier one without.
func TestOSUTimes(t *testing.T) {
	got, err := parseOSU("# OSU MPI Broadcast Latency Test v7.4\n# Datatype: MPI_CHAR.\n# Size  Avg Latency(us)\n8  0.50\n16  1.25\n", 2)
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{5e-7, 1.25e-6}, got, 1e-12)
	got, err = parseOSU("\n# Avg Latency(us)\n      2.00\n", 1)
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{2e-6}, got, 1e-12)
	for _, text := range []string{"", "8 x\n", "8 0\n", "8 1\n16 1\n"} {
		_, err := parseOSU(text, 1)
		require.Error(t, err, text)
	}
}

// OSU's programs are found below the folder of their MPI; the error names a missing one and the way to
// build it.
func TestOSUPrograms(t *testing.T) {
	dir := t.TempDir()
	m := MPI{Name: "some", Launcher: "true", Compiler: "mpicc.some"}
	_, err := m.OSU(dir)
	require.ErrorContains(t, err, "./configure CC=mpicc.some CXX=mpicxx.some")
	there := filepath.Join(dir, "some", "c", "mpi")
	require.NoError(t, os.MkdirAll(there, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(there, "osu_bcast.c"), nil, 0o600))
	_, err = m.OSU(dir)
	require.ErrorContains(t, err, "no osu_* that can be run")
	require.NoError(t, os.WriteFile(filepath.Join(there, "osu_bcast"), []byte("#!/bin/sh\necho 8 2.5"), 0o700))
	command, err := m.OSU(dir)
	require.NoError(t, err)
	c := command(2, OSUArgs("bcast", 8, 8, 20))
	require.Equal(t, []string{filepath.Join(there, "osu_bcast"), "-i", "20", "-x", "2", "-m", "8:8"}, c.Argv[3:])
	c.Argv = c.Argv[3:] // without the launcher
	got, err := TimeOSU(t.Context(), 1, c)
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{2.5e-6}, got, 1e-12)
}

func TestULFMTools(t *testing.T) {
	require.Equal(t, "mpicc.openmpi", ULFM("").Compiler)
	require.Equal(t, "mpicc", ULFM("/opt/openmpi/bin").Compiler)
	require.Contains(t, ULFM("/opt/openmpi/bin").Options, "--with-ft")
	require.NotContains(t, OpenMPI.Options, "--with-ft")
}
