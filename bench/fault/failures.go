package fault

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Failures is a number of failed ranks, absolute or as a share of all ranks.
type Failures struct {
	n       int
	percent float64
	share   bool
}

// UnmarshalText parses 896 or 87.5%.
func (f *Failures) UnmarshalText(text []byte) (err error) {
	wrong := fmt.Errorf("%q: want a number of ranks, as 896, or a share of less than all, as 87.5%%", text)
	if percent, ok := strings.CutSuffix(string(text), "%"); ok {
		f.share = true
		if f.percent, err = strconv.ParseFloat(percent, 64); err != nil || !(f.percent >= 0 && f.percent < 100) {
			return wrong
		}
		return nil
	}
	if f.n, err = strconv.Atoi(string(text)); err != nil || f.n < 0 {
		return wrong
	}
	return nil
}

// MarshalText returns the text that UnmarshalText parses.
func (f Failures) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// String formats it as it was written.
func (f Failures) String() string {
	if f.share {
		return strconv.FormatFloat(f.percent, 'g', -1, 64) + "%"
	}
	return strconv.Itoa(f.n)
}

// Of is the number of failures among so many ranks. A share leaves at least one survivor.
func (f Failures) Of(ranks int) int {
	if f.share {
		return min(int(math.Round(f.percent/100*float64(ranks))), ranks-1)
	}
	return f.n
}
