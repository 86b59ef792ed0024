package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The parser of one command says the same as the parser of all.
func TestGrammarOfOneCommand(t *testing.T) {
	said := func(grammar, words []string) string {
		var out bytes.Buffer
		to := &call{grammar, &out, &out}
		if _, err := newParser(to, func(int) {}).Parse(words); err != nil {
			out.WriteString(err.Error())
		}
		return out.String()
	}
	same := func(words ...string) {
		t.Helper()
		require.Equal(t, said(nil, words), said(words, words), "%q", words)
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
