package verbs

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
)

// A note has one form, and those that are accepted are within bounds.
func FuzzNote(f *testing.F) {
	n := note{word: offer, generation: 1, first: 2, credit: 3, ports: 2, end: end{qp: 17, psn: 5, lid: 6, mtu: 3, kind: RoCE}}
	f.Add(n.encode())
	f.Add((&note{word: back, first: 9}).encode())
	f.Add((&note{word: again, first: 5, end: n.end}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		n, ok := decodeNote(b)
		if !ok {
			return
		}
		require.Equal(t, b, n.encode())
		require.Less(t, n.word, again+1)
		require.True(t, n.word != offer || n.credit > 0)
		require.True(t, n.word != again || n.end.qp > 0)
	})
}

// A key is one of each port, four at most.
func FuzzKey(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, ok := readKeys(b)
		require.Equal(t, len(b) > 0 && len(b) <= 16 && len(b)%4 == 0, ok)
		for i := 0; ok && i < len(b)/4; i++ {
			require.Equal(t, b[4*i:][:4], binary.LittleEndian.AppendUint32(nil, keys[i]))
		}
	})
}

// A message that counts as valid has a class, and its payload is all that follows.
func FuzzMessage(f *testing.F) {
	b := make([]byte, headerBytes+3)
	h := header{imm: 7, length: 3, credit: 2, class: fabric.ClassTest}
	h.put(b)
	f.Add(b)
	f.Add(b[:headerBytes])
	f.Fuzz(func(t *testing.T, b []byte) {
		if !validMessage(b) {
			return
		}
		h, payload := frameOf(b)
		require.Less(t, h.class, fabric.Class(fabric.NumClasses))
		require.Equal(t, b[headerBytes:], payload)
		again := append([]byte(nil), b...)
		h.put(again)
		require.Equal(t, b, again)
	})
}

// The kernel's description of a port gives a port or a reason.
func FuzzPort(f *testing.F) {
	f.Add("4: ACTIVE", "Ethernet", "0000:0000:0000:0000:0000:ffff:0a4d:0001", "RoCE v2")
	f.Add("1: DOWN", "InfiniBand", "fe80:0000:0000:0000:5054:00ff:fe77:0000", "")
	f.Fuzz(func(t *testing.T, state, layer, gid, kind string) {
		root := t.TempDir()
		adapter(t, root, state, layer, gid, kind)
		all, err := choose(root, "", nil)
		if err != nil {
			return
		}
		p := all[0]
		want := Port{Device: "rxe0", Number: 1, GID: 1, Address: p.Address, Interface: "eth0"}
		if layer == "Ethernet" {
			want.Kind = RoCE
		}
		require.Equal(t, want, p)
		require.True(t, p.Address.IsValid())
	})
}

// adapter describes one with one port in files, as the kernel does.
func adapter(t *testing.T, root, state, layer, gid, kind string) {
	port := filepath.Join(root, "rxe0", "ports", "1")
	for name, text := range map[string]string{
		"state": state, "link_layer": layer, "gids/0": "0000:0000:0000:0000:0000:0000:0000:0000", "gids/1": gid,
		"gid_attrs/types/1": kind, "gid_attrs/ndevs/1": "eth0",
	} {
		at := filepath.Join(port, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
		require.NoError(t, os.WriteFile(at, []byte(text+"\n"), 0o600))
	}
}
