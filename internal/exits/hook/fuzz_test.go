package hook

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/stretchr/testify/require"
)

// types are those of a kernel that layout looks for, encoded; with changes by structure.
func types(f *testing.F, change func(*btf.Struct)) []byte {
	word := &btf.Int{Name: "int", Size: 4}
	pidType := &btf.Enum{Name: "pid_type", Size: 4, Values: []btf.EnumValue{{Name: "PIDTYPE_TGID", Value: 1}}}
	b, err := btf.NewBuilder([]btf.Type{pidType}, nil)
	require.NoError(f, err)
	task := &btf.Struct{Name: "task_struct", Size: 64}
	for _, s := range []*btf.Struct{
		{Name: "signal_struct", Size: 32}, {Name: "pid", Size: 32}, {Name: "upid", Size: 16},
		{Name: "pid_namespace", Size: 8}, {Name: "ns_common", Size: 8}, task,
	} {
		fields := map[string]string{
			"task_struct": "signal group_leader exit_code", "signal_struct": "live flags group_exit_code pids",
			"pid": "level numbers", "upid": "nr ns", "pid_namespace": "ns", "ns_common": "inum",
		}
		for i, name := range strings.Fields(fields[s.Name]) {
			s.Members = append(s.Members, btf.Member{Name: name, Type: word, Offset: btf.Bits(32 * i)})
		}
		if s == task { // one in an anonymous member
			inner := &btf.Struct{Size: 4, Members: []btf.Member{{Name: "tgid", Type: word}}}
			s.Members = append(s.Members, btf.Member{Type: inner, Offset: 32 * 8})
		}
		change(s)
		_, err := b.Add(s)
		require.NoError(f, err)
	}
	proto := &btf.FuncProto{Return: &btf.Void{}, Params: []btf.FuncParam{
		{Type: &btf.Pointer{Target: &btf.Void{}}}, {Type: word}, {Type: &btf.Pointer{Target: task}}}}
	_, err = b.Add(&btf.Typedef{Name: "btf_trace_signal_generate", Type: &btf.Pointer{Target: proto}})
	require.NoError(f, err)
	out, err := b.Marshal(nil, nil)
	require.NoError(f, err)
	return out
}

// Of whatever types the places of fields are found: each is one that a program can have.
func FuzzTypes(f *testing.F) {
	good := types(f, func(*btf.Struct) {})
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(good))
	require.NoError(f, err)
	k, err := layout(spec)
	require.NoError(f, err)
	require.Equal(f, []int16{32, 20, 8}, []int16{k.task.tgid, k.signal.tgid, k.signalTask})
	f.Add(good)
	f.Add(types(f, func(s *btf.Struct) {
		if s.Name == "task_struct" { // which contains itself
			s.Members = append([]btf.Member{{Type: s, Offset: 8}}, s.Members...)
		}
	}))
	f.Add(types(f, func(s *btf.Struct) { s.Size = 1 << 20 }))
	f.Add(types(f, func(s *btf.Struct) { s.Members[0].Offset = 8 << 20 }))
	f.Fuzz(func(t *testing.T, b []byte) {
		spec, err := btf.LoadSpecFromReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		k, err := layout(spec)
		if err != nil {
			return
		}
		for _, at := range []int16{k.task.signal, k.task.leader, k.task.exitCode, k.task.tgid, k.signal.live, k.signal.flags,
			k.signal.groupExitCode, k.signal.tgid, k.pid.level, k.pid.numbers, k.upid.size, k.upid.nr, k.upid.ns, k.ns.inum} {
			require.GreaterOrEqual(t, at, int16(0))
		}
		require.GreaterOrEqual(t, k.signalTask, int16(absent))
	})
}

// A process's status says a pid and a level, or nothing.
func FuzzStatus(f *testing.F) {
	f.Add("Name:\tx\nNSpid:\t4711\nNSpgid:\t1\n")
	f.Add("NSpid:\t4711\t12\t1\n")
	f.Add("NSpid:\n")
	f.Add("NSpid:\t-1\t99999999999\n")
	f.Fuzz(func(t *testing.T, status string) {
		pid, level := innermost(strings.NewReader(status))
		require.GreaterOrEqual(t, pid, 0)
		require.LessOrEqual(t, level, len(status))
		if level < 0 {
			require.Zero(t, pid)
		}
	})
}
