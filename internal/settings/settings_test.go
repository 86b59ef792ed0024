package settings

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/fabric/tcp"
)

// write makes a file and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Every knob can be written and read again, at both ends of its range and at its default, has its
// own name in the environment, and a description.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Knobs() {
		require.NotEmpty(t, k.Meaning, k.Name)
		require.NoError(t, k.Check(k.Default), k.Name)
		for _, v := range []int{k.Min, k.Max, k.Default} {
			got, err := k.Parse(k.Format(v))
			require.NoError(t, err, k.Name)
			require.Equal(t, v, got, k.Name)
		}
		for _, v := range []int{k.Min - 1, k.Max + 1} {
			if v == Auto && k.Auto {
				continue
			}
			require.ErrorContains(t, k.Check(v), k.Range(), k.Name)
		}
		require.False(t, seen[k.Variable()], k.Name)
		seen[k.Variable()] = true
	}
	require.Equal(t, "BANYAN_SHM_EAGER_NEAR", Of(EagerNear).Variable())
}

// The table's ranges for shared memory are those that the provider accepts.
func TestRangesAreTheProviders(t *testing.T) {
	for _, k := range []struct {
		id  ID
		set func(*shm.Config, int)
	}{
		{RingLines, func(c *shm.Config, v int) { c.Lines = v }},
		{RingBytes, func(c *shm.Config, v int) { c.BulkBytes = v }},
	} {
		for v, ok := range map[int]bool{Of(k.id).Min: true, Of(k.id).Max: true, Of(k.id).Min / 2: false, 2 * Of(k.id).Max: false, Of(k.id).Default + 1: false} {
			cfg := shm.Config{MaxProcs: 1}
			k.set(&cfg, v)
			p, err := shm.Open(cfg)
			require.Equal(t, ok, err == nil, "%s %d: %v", Of(k.id).Name, v, err)
			require.Equal(t, ok, Of(k.id).Check(v) == nil, "%s %d", Of(k.id).Name, v)
			if ok {
				require.NoError(t, p.Close())
			}
		}
	}
}

// The same of sockets: both ends of each range, and the defaults, are accepted.
func TestRangesAreTheSockets(t *testing.T) {
	for id, set := range map[ID]func(*tcp.Config, int){
		TCPEager:  func(c *tcp.Config, v int) { c.Eager = v },
		TCPReply:  func(c *tcp.Config, v int) { c.Reply = v },
		TCPOutbox: func(c *tcp.Config, v int) { c.Outbox = v },
		TCPHeal:   func(c *tcp.Config, v int) { c.Heal = time.Duration(v) * time.Millisecond },
	} {
		k := Of(id)
		for v, ok := range map[int]bool{k.Min: true, k.Max: true, k.Default: true, -k.Min: false, k.Default + 1: !k.PowerOfTwo} {
			cfg := tcp.Config{MaxProcs: 1, Secret: make([]byte, 16), Unix: true}
			set(&cfg, v)
			p, err := tcp.Open(cfg)
			require.Equal(t, ok, err == nil, "%s %d: %v", k.Name, v, err)
			require.Equal(t, ok, k.Check(v) == nil, "%s %d", k.Name, v)
			if ok {
				require.NoError(t, p.Close())
			}
		}
	}
	for v, ok := range map[int]bool{Of(TCPOutbox).Min / 2: false, Of(TCPOutbox).Max * 2: false} {
		_, err := tcp.Open(tcp.Config{MaxProcs: 1, Secret: make([]byte, 16), Unix: true, Outbox: v})
		require.Equal(t, ok, err == nil, "%d: %v", v, err)
	}
}

func TestParseTimes(t *testing.T) {
	k := Of(TCPHeal)
	for text, want := range map[string]int{"30": 30_000, "30s": 30_000, "500ms": 500, "1.5s": 1500, "2M": 120_000, "1h": 3_600_000} {
		got, err := k.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "s", "-1s", "99ms", "1h1ms", "100.5ms", "30 s", "30k", "auto", "9999999999999s"} {
		_, err := k.Parse(text)
		require.ErrorContains(t, err, "tcp.heal", text)
		require.ErrorContains(t, err, "100ms … 60m is possible", text)
	}
	_, err := k.Parse("abc")
	require.EqualError(t, err, "tcp.heal = abc: 100ms … 60m is possible; a number without a unit is seconds")
	for v, want := range map[int]string{100: "100ms", 1000: "1s", 1500: "1500ms", 90_000: "90s", 120_000: "2m"} {
		require.Equal(t, want, k.Format(v))
	}
}

func TestParseValues(t *testing.T) {
	for text, want := range map[string]int{"8192": 8192, "8k": 8192, "8K": 8192, "8KiB": 8192, "8kb": 8192, "8192b": 8192, "1m": 1 << 20} {
		got, err := Of(EagerNear).Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "k", "-1", "1.5k", "8 k", "auto", "9223372036854775807k", "0x10", "63", "2m", "∞"} {
		_, err := Of(EagerNear).Parse(text)
		require.ErrorContains(t, err, "shm.eager.near", text)
		require.ErrorContains(t, err, "64 … 1m is possible", text)
	}
	for text, want := range map[string]int{"on": 1, "Yes": 1, "true": 1, "off": 0, "no": 0, "0": 0} {
		got, err := Of(KernelCopy).Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	_, err := Of(KernelCopy).Parse("maybe")
	require.EqualError(t, err, "shm.kernel_copy = maybe: on or off is possible")
	got, err := Of(Spins).Parse("auto")
	require.NoError(t, err)
	require.Equal(t, Auto, got)
	_, err = Of(Spins).Parse("20k") // a count, no size
	require.Error(t, err)
}

const here = "amd64 Test CPU 1/2 4 CPUs"

// Each place is stronger than those below it, knob by knob.
func TestPrecedence(t *testing.T) {
	system := write(t, "system", `
shm.eager.near = 20k
shm.eager.far = 2k
wait.spins = 1
wait.yields = 1
`)
	user := write(t, "user", `
shm.eager.near = 21k
shm.eager.far = 3k
wait.spins = 2
[`+here+`]
wait.spins = 3   # counts before what holds everywhere
[another machine]
shm.ring.lines = 64
`)
	s, err := Load(Surroundings{
		Environ: []string{"BANYAN_SHM_EAGER_FAR=1k", "BANYAN_SHM_EAGER_FAR=4k", "BANYAN_UNEXPECTED=", "OTHER=1"},
		User:    user, System: system, Machine: func() string { return here },
	})
	require.NoError(t, err)
	require.NoError(t, s.Override(Eager, 5000, "WithEagerLimit"))
	for _, want := range []struct {
		id     ID
		value  int
		origin string
	}{
		{Eager, 5000, "WithEagerLimit"},
		{EagerNear, 21 << 10, user + ":2"},
		{EagerFar, 4 << 10, "BANYAN_SHM_EAGER_FAR"},
		{RingLines, 512, "default"},
		{Unexpected, 1 << 20, "default"},
		{Spins, 3, user + ":6"},
		{Yields, 1, system + ":5"},
	} {
		require.Equal(t, want.value, s.Int(want.id), Of(want.id).Name)
		require.Equal(t, want.origin, s.Origin(want.id), Of(want.id).Name)
		require.Equal(t, want.origin != "default", s.Changed(want.id))
	}
	require.True(t, s.On(KernelCopy))
	require.Equal(t, []Source{{Path: user, State: "read"}, {Path: system, State: "read"}}, s.Sources)

	require.EqualError(t, s.Override(Eager, 65<<20, "WithEagerLimit"), "WithEagerLimit: shm.eager = 65m: auto, or 1 … 64m is possible")
	require.Equal(t, 5000, s.Int(Eager), "a wrong value changes nothing")
}

// BANYAN_TUNING takes the place of both files.
func TestNamedFile(t *testing.T) {
	user := write(t, "user", "wait.spins = 2\n")
	named := write(t, "named", "wait.yields = 7\n")
	load := func(value string) (*Set, error) {
		return Load(Surroundings{Environ: []string{"BANYAN_TUNING=" + value}, User: user, System: user, Machine: func() string { return here }})
	}
	s, err := load(named)
	require.NoError(t, err)
	require.Equal(t, 7, s.Int(Yields))
	require.Equal(t, Auto, s.Int(Spins))

	s, err = load("none")
	require.NoError(t, err)
	require.Equal(t, Defaults(), s)

	_, err = load("/no/such/file")
	require.ErrorContains(t, err, "BANYAN_TUNING=/no/such/file: there is no such file")

	s, err = load("")
	require.NoError(t, err)
	require.Equal(t, 2, s.Int(Spins), "an empty variable is none")
}

func TestAbsentAndUnusableFiles(t *testing.T) {
	file := write(t, "f", "")
	s, err := Load(Surroundings{User: filepath.Join(file, "below"), System: "/no/such/file", Machine: func() string { return here }})
	require.NoError(t, err)
	require.Equal(t, []Source{{Path: filepath.Join(file, "below"), State: "absent"}, {Path: "/no/such/file", State: "absent"}}, s.Sources)

	_, err = Load(Surroundings{User: t.TempDir()})
	require.ErrorContains(t, err, "BANYAN_TUNING=none does without files")

	_, err = Load(Surroundings{User: write(t, "long", strings.Repeat("#\n", maxFile/2+1))})
	require.ErrorContains(t, err, "no file of settings")

	_, err = Load(Surroundings{})
	require.NoError(t, err, "no home directory")
}

// A file with parts for other machines only is ignored, and that is reported.
func TestForeignFile(t *testing.T) {
	path := write(t, "f", "wait.spins = 4\n[arm64 Other, 8 CPUs]\nshm.eager.near = 8k\n[x]\n")
	s, err := Load(Surroundings{User: path, Machine: func() string { return here }})
	require.NoError(t, err)
	require.Equal(t, 4, s.Int(Spins), "what holds everywhere holds here")
	require.False(t, s.Changed(EagerNear))
	require.True(t, s.Sources[0].Foreign)
	require.Equal(t, "has nothing measured on this machine, [amd64 Test CPU 1/2 4 CPUs]; its parts are for [arm64 Other, 8 CPUs], [x]", s.Sources[0].State)
}

// All errors of a file are reported at once, each with its line.
func TestFileErrors(t *testing.T) {
	for text, want := range map[string]string{
		"shm.eagr.near = 8k":                     "f:1: there is no knob shm.eagr.near; is shm.eager.near meant? ftbench info has the list",
		"colour = red":                           "f:1: there is no knob colour; ftbench info has the list",
		"\n\nshm.eager.near = 8x":                "f:3: shm.eager.near = 8x: 64 … 1m is possible",
		"shm.ring.lines = 500":                   "f:1: shm.ring.lines = 500: 64 … 65536, a power of two is possible",
		"wait.spins":                             `f:1: "wait.spins" is no setting: knob = value is needed`,
		"wait.spins = # 4":                       `f:1: "wait.spins =" is no setting: knob = value is needed`,
		"= 4":                                    `f:1: "= 4" is no setting: knob = value is needed`,
		"[x\n":                                   "f:1: [x: the head of a part is [MACHINE]",
		"[]\n":                                   "f:1: []: the head of a part is [MACHINE]",
		"[x]\n[y]\n[x]":                          "f:3: [x]: this part starts in line 1 already",
		"wait.spins = 1\nwait.spins = 2":         "f:2: wait.spins is set in line 1 already",
		"[x]\nwait.spins=1\n[y]\nwait.spins = a": "f:4: wait.spins = a: auto, or 0 … 2147483647 is possible",
	} {
		_, err := Parse("f", []byte(text))
		require.ErrorContains(t, err, want, text)
	}
	_, err := Parse("f", []byte("a = 1\nwait.spins = 2\nb = 3\n"))
	require.ErrorContains(t, err, "f:1:")
	require.ErrorContains(t, err, "f:3:")
	require.NotContains(t, err.Error(), "f:2:")

	f, err := Parse("f", []byte("\twait.spins=5#no comment\r\n"))
	require.ErrorContains(t, err, "5#no comment")
	require.Empty(t, f.entries)
	f, err = Parse("f", []byte("  wait.spins\t=  5\t# comment\r\n# another"))
	require.NoError(t, err)
	require.Equal(t, []entry{{id: Spins, value: 5, line: 1}}, f.entries)
}

func TestEnvironmentErrors(t *testing.T) {
	for variable, want := range map[string]string{
		"BANYAN_SHM_EAGER=8z":     "BANYAN_SHM_EAGER=8z: shm.eager = 8z: auto, or 1 … 64m is possible",
		"BANYAN_SHM_EAGR=8k":      "BANYAN_SHM_EAGR: there is no such setting; is BANYAN_SHM_EAGER meant?",
		"BANYAN_WAIT_SPIN=1":      "is BANYAN_WAIT_SPINS meant?",
		"BANYAN_COLL_DESING=x":    "is BANYAN_COLL_DESIGN meant?",
		"BANYAN_FABRICS=tcp":      "BANYAN_FABRICS: there is no such setting; is BANYAN_FABRIC meant?",
		"BANYAN_NETWORK=eth0":     "is BANYAN_NETWORKS meant?",
		"BANYAN_SHM_NOTHING=1":    "there is no knob BANYAN_SHM_NOTHING",
		"BANYAN_UNEXPECTED_MAX=1": "there is no knob BANYAN_UNEXPECTED_MAX",
	} {
		_, err := Load(Surroundings{Environ: []string{variable}})
		require.ErrorContains(t, err, want, variable)
	}
	_, err := Load(Surroundings{Environ: []string{"BANYAN_INIT_TIMEOUT=5s", "BANYAN_FABRIC=tcp", "BANYAN_JOB=x", "BANYAN_MODE=x", "BANYAN_FOO=1"}})
	require.NoError(t, err, "other variables of the library")
}

// No variable that a program of this module reads is taken for a misspelled one.
func TestVariablesOfTheModule(t *testing.T) {
	name := regexp.MustCompile(`= "(BANYAN_[A-Z_]+)"`)
	found := 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			if found++; hasFamily(m[1]) {
				continue
			}
			near := misspelled(m[1])
			require.True(t, near == "" || near == m[1], "%s: %s is near to %s", path, m[1], near)
		}
		return err
	}))
	require.Greater(t, found, 20)
}

// The shown text can be parsed, with the same result.
func TestWriteIsReadable(t *testing.T) {
	s := Defaults()
	require.NoError(t, s.Override(EagerNear, 24<<10, "BANYAN_SHM_EAGER_NEAR"))
	require.NoError(t, s.Override(KernelCopy, 0, "WithKernelCopy"))
	var all, changed strings.Builder
	require.NoError(t, s.Write(&all, false))
	require.NoError(t, s.Write(&changed, true))
	f, err := Parse("f", []byte(all.String()))
	require.NoError(t, err)
	require.Len(t, f.entries, len(Knobs()))
	for _, e := range f.entries {
		require.Equal(t, s.Int(e.id), e.value)
	}
	f, err = Parse("f", []byte(changed.String()))
	require.NoError(t, err)
	require.Len(t, f.entries, 2)
	require.Contains(t, all.String(), "shm.eager.near = 24k     # BANYAN_SHM_EAGER_NEAR\n")
	require.Contains(t, all.String(), "# bytes; 64 … 1m; default 16k; BANYAN_SHM_EAGER_NEAR\n")

	again, err := Load(Surroundings{Environ: s.Environ(), User: "/no/such/file"})
	require.NoError(t, err)
	for i := range Knobs() {
		require.Equal(t, s.Int(ID(i)), again.Int(ID(i)))
	}
}

func TestMachine(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	root := fstest.MapFS{
		"proc/cpuinfo": file("processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n" +
			"model name\t: Intel(R) Xeon(R) [Gold] #6430\nflags : fpu\n\nprocessor\t: 1\nmodel\t\t: 9\n"),
		"sys/devices/system/cpu/online": file("0-3,8,10-11\n"),
	}
	require.Equal(t, "amd64 Intel(R) Xeon(R) Gold 6430 6/143 7 CPUs", machine(root, "amd64"))
	arm := fstest.MapFS{
		"proc/cpuinfo":                  file("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"),
		"sys/devices/system/cpu/online": file("0-71"),
	}
	require.Equal(t, "arm64 0x41 0xd4f 72 CPUs", machine(arm, "arm64"))
	require.Regexp(t, `^amd64 \d+ CPUs$`, machine(fstest.MapFS{}, "amd64"))
	for _, list := range []string{"", "a", "3-1", "1,,2"} {
		require.Zero(t, countList(list), list)
	}
	// The name survives a file.
	f, err := Parse("f", []byte("["+Machine()+"]\nwait.spins = 1\n"))
	require.NoError(t, err)
	require.Len(t, f.on(Machine()), 1)
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"spin", "spins", 1}, {"kitten", "sitting", 3}, {"abc", "abc", 0}} {
		require.Equal(t, c.want, distance(c.a, c.b), "%s %s", c.a, c.b)
		require.Equal(t, c.want, distance(c.b, c.a), "%s %s", c.b, c.a)
	}
}

// The chapter on tuning has every knob with its default and range.
func TestDocumented(t *testing.T) {
	doc := read(t, "../../docs/tuning.md")
	for _, k := range Knobs() {
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(k.Name) + "` \\|.*$").FindString(doc)
		require.Contains(t, row, " | "+k.Format(k.Default)+" | ", k.Name)
		bounds, rest, _ := strings.Cut(k.Range(), ", a power")
		require.Contains(t, row, "| "+bounds, k.Name)
		require.Equal(t, rest != "", strings.Contains(row, "a power of two"), k.Name)
	}
}
