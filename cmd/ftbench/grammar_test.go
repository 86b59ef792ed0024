package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// The parser of one command gives the same messages as the parser of all.
func TestGrammarOfOneCommand(t *testing.T) {
	var out bytes.Buffer
	said := func(parser *kong.Kong, words []string) string {
		out.Reset()
		if _, err := parser.Parse(words); err != nil {
			out.WriteString(err.Error())
		}
		return out.String()
	}
	parser := func(words []string) *kong.Kong { return newParser(&call{words, &out, &out}, func(int) {}) }
	all := parser(nil) // takes long to make
	same := func(words ...string) {
		t.Helper()
		want := said(all, words)
		require.NotEmpty(t, want, "%q", words)
		require.Equal(t, want, said(parser(words), words), "%q", words)
	}
	for command := range leaves(t) {
		words := strings.Fields(command)[1:]
		if !slices.Contains(describers, words[0]) {
			require.Len(t, newParser(&call{args: words}, func(int) {}).Model.Leaves(false), 1, command)
		}
		same(append(words, "--help")...)
	}
	same("osu", "latency", "--version")
	same("osu", "latency", "--bogus")
	same("osu", "--help")
	same("osu", "latncy")
	same("osu")
	same("bogus")
	same("--bogus")
	same("--version")
}
