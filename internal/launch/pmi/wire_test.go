package pmi

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	m, err := Parse("cmd=get_result  rc=0 value=a=b\tvalue=second ")
	require.NoError(t, err)
	require.Equal(t, Message{Cmd: "get_result", fields: []field{{"rc", "0"}, {"value", "a=b"}, {"value", "second"}}}, m)
	require.Equal(t, "a=b", m.Get("value"))
	require.Empty(t, m.Get("nothing"))
	require.False(t, m.Failed())
	_, err = m.Number("value")
	require.ErrorContains(t, err, "no number")

	m, err = Parse("mcmd=spawn")
	require.NoError(t, err)
	require.True(t, m.multi)

	for line, want := range map[string]string{
		"":                                    "empty",
		"  ":                                  "empty",
		"cmd=":                                "no cmd=",
		"rc=0 cmd=x":                          "no cmd=",
		"cmd=x y":                             "not key=value",
		"cmd=x =y":                            "not key=value",
		"cmd=x y=\x00":                        "control character 0x00",
		"cmd=x y=\x7f":                        "control character 0x7f",
		"cmd=x" + strings.Repeat(" a=b", 100): "more than 32 fields",
	} {
		_, err := Parse(line)
		require.ErrorContains(t, err, want)
	}
}

func TestReadLine(t *testing.T) {
	r := bufio.NewReaderSize(strings.NewReader("one\r\n\ntwo\n"+strings.Repeat("x", 40)+"\n"), 32)
	for _, want := range []string{"one", "", "two"} {
		line, err := ReadLine(r)
		require.NoError(t, err)
		require.Equal(t, want, line)
	}
	_, err := ReadLine(r)
	require.ErrorContains(t, err, "longer than 32 bytes")
	_, err = ReadLine(bufio.NewReader(strings.NewReader("cmd=half")))
	require.ErrorContains(t, err, "ended inside the line")
}

func TestLostTravels(t *testing.T) {
	for _, n := range []int{1, 2, 500} {
		var lost []Lost
		for r := range n {
			lost = append(lost, Lost{r, "exited with code 127 before it joined"})
		}
		line := Encode("barrier_out", encodeLost(lost)...)
		require.Less(t, len(line), RequestMax, "other implementations read lines of 1024")
		m, err := Parse(strings.TrimSpace(line))
		require.NoError(t, err)
		got, err := DecodeLost(m)
		require.NoError(t, err)
		require.Equal(t, n, got.Total)
		require.Equal(t, lost[:len(got.Lost)], got.Lost)
		require.ErrorContains(t, got, "launch: rank 0 exited with code 127 before it joined")
		if n == 500 {
			require.ErrorContains(t, got, fmt.Sprintf("; and %d more", 500-len(got.Lost)))
		}
	}
	require.Nil(t, encodeLost(nil))
}

func TestMapping(t *testing.T) {
	m, err := ParseMapping("(vector,(0,2,4),(2,1,1))")
	require.NoError(t, err)
	require.Equal(t, "(vector,(0,2,4),(2,1,1))", m.String())
	for rank, node := range []int{0, 0, 0, 0, 1, 1, 1, 1, 2, 0} {
		require.Equal(t, node, m.NodeOf(rank), "rank %d", rank)
	}
	for _, bad := range []string{"", "(vector)", "(vector,())", "(vector,(0,1))", "(vector,(0,0,1))",
		"(vector,(0,1,0))", "(vector,(-1,1,1))", "(vector,(0,1,99999999))", "(vector,(0,1,1),)"} {
		_, err := ParseMapping(bad)
		require.Error(t, err, bad)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"cmd=init pmi_version=1 pmi_subversion=1", "mcmd=spawn", "cmd=get_result rc=0 value=x",
		"cmd=barrier_out rc=1 lost=MiBkaWVkCg total=1", "cmd=x =", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		m, err := Parse(line)
		if err != nil {
			return
		}
		if m.Cmd == "" || len(m.fields) > fieldsMax {
			t.Fatalf("%q gives %+v", line, m)
		}
		if missing, err := DecodeLost(m); err == nil && missing != nil {
			_ = missing.Error()
		}
		kv := []string{}
		for _, x := range m.fields {
			kv = append(kv, x.key, x.value)
		}
		if m.multi {
			return
		}
		again, err := Parse(strings.TrimSuffix(Encode(m.Cmd, kv...), "\n"))
		if err != nil {
			t.Fatal(err)
		}
		require.Equal(t, m, again)
	})
}

func FuzzMapping(f *testing.F) {
	f.Add("(vector,(0,2,4),(2,1,1))", 7)
	f.Add("(vector,(0,1,8))", 0)
	f.Fuzz(func(t *testing.T, text string, rank int) {
		m, err := ParseMapping(text)
		if err == nil && rank >= 0 && m.NodeOf(rank) < 0 {
			t.Fatal(text, rank)
		}
	})
}

// A launcher that breaks the protocol in the middle of the secret does not bring
// it into the error.
func TestErrorsQuoteNoValue(t *testing.T) {
	const value = "0001.c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3I"
	for _, line := range []string{
		"cmd=get_result rc=0 value=" + value + "\x01",
		"cmd=put kvsname=k key=b-job-secret-0 value=" + value + " x",
		"get_result value=" + value,
		"cmd=get_result value=" + value + strings.Repeat(" a=b", fieldsMax),
	} {
		_, err := Parse(line)
		require.Error(t, err)
		require.NotContains(t, err.Error(), value[:8], line)
	}
}
