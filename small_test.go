package banyan

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a shrink makes fits into six lines of the cache, and into memory of which Go has a list: what a shrink takes beyond its agreement
// is for the most part to get at that much memory that is cold.
func TestWhatAShrinkMakesIsSmall(t *testing.T) {
	require.LessOrEqual(t, int(reflect.TypeFor[whole]().Size()), 384)
}
