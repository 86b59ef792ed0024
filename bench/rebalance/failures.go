package rebalance

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Failures is how many ranks have failed: a number, or a share of all.
type Failures struct {
	n       int
	percent float64
	share   bool
}

// UnmarshalText reads 896 or 87.5%.
func (f *Failures) UnmarshalText(text []byte) (err error) {
	wrong := func() error {
		return fmt.Errorf("%q: want a number of ranks, as 896, or a share of less than all, as 87.5%%", text)
	}
	if percent, ok := strings.CutSuffix(string(text), "%"); ok {
		f.share = true
		if f.percent, err = strconv.ParseFloat(percent, 64); err != nil || !(f.percent >= 0 && f.percent < 100) {
			return wrong()
		}
		return nil
	}
	if f.n, err = strconv.Atoi(string(text)); err != nil || f.n < 0 {
		return wrong()
	}
	return nil
}

// MarshalText gives what UnmarshalText reads.
func (f Failures) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// String gives it as it was written.
func (f Failures) String() string {
	if f.share {
		return strconv.FormatFloat(f.percent, 'g', -1, 64) + "%"
	}
	return strconv.Itoa(f.n)
}

// Of is how many of so many ranks that is. One always lives.
func (f Failures) Of(ranks int) int {
	if f.share {
		return min(int(math.Round(f.percent/100*float64(ranks))), ranks-1)
	}
	return f.n
}
