package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// Any environment gives settings that are in range and name their source, or an error that names the
// variable.
func FuzzEnvironment(f *testing.F) {
	f.Add("BANYAN_WAIT_SPINS=3\nBANYAN_SHM_EAGER_NEAR=8k\nHOME=/x")
	f.Add("BANYAN_DETECT_PERIOD=500ms\nBANYAN_DETECT_TIMEOUT=1.5")
	f.Add("BANYAN_WAIT_SPIN=3\nBANYAN_WAIT_SPINS")
	f.Add("BANYAN_SHM_RING_LINES=99999999999999999999\nBANYAN_UNEXPECTED=\n=")
	f.Fuzz(func(t *testing.T, environ string) {
		vars := strings.Split(environ, "\n")
		s, err := Load(Surroundings{Environ: append(vars, FileVariable+"="+NoFile)})
		if err != nil {
			require.Contains(t, strings.ToUpper(err.Error()), "BANYAN")
			return
		}
		for i := range table {
			require.NoError(t, table[i].Check(s.Int(ID(i))))
			require.NotEmpty(t, s.Origin(ID(i)))
		}
	})
}

// With any description of processors by the kernel, their name can be the head of a part of a file, and is read
// again from there.
func FuzzMachine(f *testing.F) {
	f.Add("processor\t: 0\nmodel name\t: A CPU [x] # 2.0GHz\ncpu family\t: 6\nmodel\t: 85\n\nprocessor\t: 1\n", "0-3,8")
	f.Add("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "0-9223372036854775807,1-5")
	f.Add("\xff: \x00\n", "3-1")
	f.Fuzz(func(t *testing.T, cpuinfo, online string) {
		name := machine(fstest.MapFS{
			"proc/cpuinfo": {Data: []byte(cpuinfo)}, "sys/devices/system/cpu/online": {Data: []byte(online)},
		}, "amd64")
		require.Regexp(t, `^amd64 (.* )?[1-9][0-9]* CPUs$`, name)
		file, err := Parse("f", []byte("["+name+"]\nshm.eager.near = 8k\n"))
		require.NoError(t, err)
		require.Equal(t, map[ID]int{EagerNear: 8 << 10}, effect(file.on(name)))
	})
}

// Any file: no panic, errors with lines, values in range, and its values can be written into a part
// and read again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "wait.spins = 3\n", "[a b]\nshm.eager.near=8k # x\n\n# y\n[c]\n", "#\n[x", "shm.kernel_copy = off\nshm.ring.lines = 64", "a=b=c", "\xff = 1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("f", text)
		for _, e := range file.entries {
			require.NoError(t, Of(e.id).Check(e.value))
		}
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				require.Regexp(t, `^f:\d+: `, line)
			}
			return
		}
		path := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		p := &Part{Machine: here, Measured: []ID{EagerNear}, Lines: []Line{{EagerNear, 4096, "x"}}}
		require.NoError(t, update(path, p))
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		again, err := Parse(path, after)
		require.NoError(t, err, "%q", after)
		require.Equal(t, effect(file.on("other")), effect(again.on("other")))
		want := effect(file.on(here))
		want[EagerNear] = 4096
		require.Equal(t, want, effect(again.on(here)))
		require.NoError(t, update(path, p))
		same, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(after), string(same), "a second time changes nothing")
	})
}

func effect(entries []entry) map[ID]int {
	out := map[ID]int{}
	for _, e := range entries {
		out[e.id] = e.value
	}
	return out
}
