package figure

import (
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
)

// scale is the extent of an axis and the places of its marks.
type scale struct {
	unit   Unit
	lo, hi float64
	marks  []plot.Tick
}

// maxLabels is the number of sizes that fit side by side under a chart.
const maxLabels = 12

// Ticks returns the places of the marks, for any range: the range follows from them.
func (s scale) Ticks(float64, float64) []plot.Tick {
	out := slices.Clone(s.marks)
	for i := range out {
		out[i].Value = s.unit.place(out[i].Value)
	}
	return out
}

// newScale returns an axis for values from lo to hi, which have places on it, with a mark at either
// end.
func newScale(u Unit, lo, hi float64) scale {
	var s scale
	switch u {
	case Bytes:
		s = binaryScale(lo, hi, binaryLabel)
	case Doubling:
		s = binaryScale(lo, hi, func(e int) string { return decimalLabel(math.Ldexp(1, e)) })
	case Linear:
		s = linearScale(hi, 0)
	case Count:
		s = linearScale(hi, 1)
	default:
		s = decimalScale(lo, hi)
	}
	s.unit = u
	return s
}

// linearScale goes from zero to at least hi, in at most ten steps of 1, 2 or 5 times a power of
// ten, each of least or more.
func linearScale(hi, least float64) scale {
	const steps = 10
	m, e := 1, 0 // a step is m×10^e
	if hi >= smallest {
		step := ceil125(max(hi/steps, least))
		e = int(math.Floor(math.Log10(step) + 0.01)) // of 1, 2 and 5 no logarithm is nearer to a whole number above it
		m = int(math.Round(step / math.Pow10(e)))
	}
	out := scale{}
	for i := 0; i < 2 || out.hi < hi; i++ {
		out.hi = scaled(i*m, e)
		out.marks = append(out.marks, plot.Tick{Value: out.hi, Label: decimalLabel(out.hi)})
	}
	return out
}

// binaryScale has a mark at each power of two and a label at each, each second, fifth or tenth, so
// that 1, 1 Ki and 1 Mi always have one. A few bytes past a power of two do not lengthen the axis
// to the next.
func binaryScale(lo, hi float64, label func(e int) string) scale {
	const few = 0.02
	first, last := int(math.Floor(math.Log2(lo)+few)), int(math.Ceil(math.Log2(hi)-few))
	if first == last {
		first, last = first-1, last+1
	}
	step := 10
	for _, s := range []int{1, 2, 5} {
		if (last-first)/s < maxLabels {
			step = s
			break
		}
	}
	out := scale{lo: min(lo, math.Ldexp(1, first)), hi: max(hi, math.Ldexp(1, last))}
	for e := first; e <= last; e++ {
		t := plot.Tick{Value: math.Ldexp(1, e)}
		if e%step == 0 {
			t.Label = label(e)
		}
		out.marks = append(out.marks, t)
	}
	return out
}

// binaryLabel writes 2^e with a prefix: 1, 512, 1 Ki, 64 Mi.
func binaryLabel(e int) string {
	prefixes := []string{"", " Ki", " Mi", " Gi", " Ti", " Pi", " Ei"}
	if e < 0 || e/10 >= len(prefixes) {
		return strconv.FormatFloat(math.Ldexp(1, e), 'g', 3, 64)
	}
	return strconv.Itoa(1<<(e%10)) + prefixes[e/10]
}

// decimalScale has marks at 1 … 9 times powers of ten, and labels at the powers; where these are fewer than
// three, at 2 and 5 times them too.
func decimalScale(lo, hi float64) scale {
	out := scale{lo: floor125(lo), hi: ceil125(hi)}
	if out.lo == out.hi {
		out.lo, out.hi = floor125(0.9*lo), ceil125(1.1*hi)
	}
	const near = 0.01 // no other of 1, 2 and 5 is so near to a power
	dense := math.Floor(math.Log10(out.hi)+near)-math.Ceil(math.Log10(out.lo)-near) < 2
	for e := int(math.Floor(math.Log10(out.lo))); ; e++ {
		for m := 1; m <= 9; m++ {
			v := scaled(m, e)
			if v > out.hi {
				return out
			}
			if v < out.lo {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || dense && (m == 2 || m == 5) {
				t.Label = decimalLabel(v)
			}
			out.marks = append(out.marks, t)
		}
	}
}

// floor125 returns the largest of 1, 2 or 5 times a power of ten that is not above v, ceil125 the
// smallest that is not below.
func floor125(v float64) float64 {
	near := around(v)
	i := slices.IndexFunc(near, func(w float64) bool { return w > v })
	return near[i-1]
}

func ceil125(v float64) float64 {
	near := around(v)
	i := slices.IndexFunc(near, func(w float64) bool { return w >= v })
	return near[i]
}

// around returns steps of 1, 2, 5 from below v to above it, with room for the error of the
// logarithm.
func around(v float64) []float64 {
	var out []float64
	e := int(math.Floor(math.Log10(v)))
	for d := e - 1; d <= e+2; d++ {
		out = append(out, scaled(1, d), scaled(2, d), scaled(5, d))
	}
	return out
}

// scaled is m×10^e, the float64 nearest to it: computed with math.Pow, 0.3 would be another number
// than the constant.
func scaled(m, e int) float64 {
	v, err := strconv.ParseFloat(strconv.Itoa(m)+"e"+strconv.Itoa(e), 64)
	if err != nil {
		panic(err) // Chart.check keeps values far from the ends
	}
	return v
}

// decimalLabel writes 0, 0.05, 20, 10 000, 1e+09.
func decimalLabel(v float64) string {
	if v != 0 && v < 1e-4 || v >= 1e8 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if v < 1e4 {
		return s
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
