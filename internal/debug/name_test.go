package debug

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
)

// Any message is split into a name that can be printed and a value, or is all value; the results of Name are
// recovered.
func FuzzUnname(f *testing.F) {
	f.Add([]byte("value"))
	f.Add(Name([]byte("value"), "main.task"))
	f.Add(Name(nil, strings.Repeat("[]map[string]", 20)))
	f.Add(Name(nil, "two\nlines")[:len(nameSign)+4])
	f.Fuzz(func(t *testing.T, b []byte) {
		name, value, ok := Unname(b)
		assert.True(t, ok || len(value) == len(b))
		assert.Equal(t, string(b[len(b)-len(value):]), string(value))
		assert.Equal(t, -1, strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }))
		again, back, ok := Unname(Name(b, "main.task"))
		assert.True(t, ok)
		assert.Equal(t, []string{"main.task", string(b)}, []string{again, string(back)})
	})
}
