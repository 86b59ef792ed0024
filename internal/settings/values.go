package settings

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// formatMillis writes a time in the largest unit in which it is whole.
func formatMillis(v int) string {
	for _, u := range times {
		if v%u.millis == 0 && v != 0 {
			return strconv.Itoa(v/u.millis) + u.name
		}
	}
	return strconv.Itoa(v) + "ms"
}

// times are the units of time that are written, the largest first.
var times = []struct {
	name   string
	millis int
}{{"m", 60_000}, {"s", 1000}}

// suffixes of numbers of bytes, the largest first.
var suffixes = []struct {
	letter string
	unit   int
}{{"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}}

func formatBytes(v int) string {
	for _, s := range suffixes {
		if v != 0 && v%s.unit == 0 {
			return strconv.Itoa(v/s.unit) + s.letter
		}
	}
	return strconv.Itoa(v)
}

// Parse reads a value: a number, for bytes also with k, m or g (of 1024, also
// written KiB or kb), a time (500ms, 1.5s, 2m; a bare number counts seconds), the
// word auto, on and off, or one of the knob's words.
func (k *Knob) Parse(text string) (int, error) {
	word := strings.ToLower(text)
	if word == "auto" && k.Auto {
		return Auto, nil
	}
	v, ok := 0, false
	switch k.Unit {
	case Path: // its name is kept beside the number
		ok = text != ""
	case Switch:
		v, ok = parseSwitch(word)
	case Millis:
		v, ok = parseMillis(word)
	case Word:
		v = slices.Index(k.Words, word)
		ok = v >= 0
	default:
		v, ok = parseNumber(word, k.Unit == Bytes)
	}
	if !ok && k.Unit == Millis {
		return 0, fmt.Errorf("%s = %s: %s is possible; %s", k.Name, text, k.Range(), bareIsSeconds)
	}
	if !ok {
		return 0, fmt.Errorf("%s = %s: %s is possible", k.Name, text, k.Range())
	}
	return v, k.Check(v)
}

func parseSwitch(word string) (int, bool) {
	switch word {
	case "on", "yes", "true", "1":
		return 1, true
	case "off", "no", "false", "0":
		return 0, true
	}
	return 0, false
}

// bareIsSeconds describes a number in parseMillis to users.
const bareIsSeconds = "a number without a unit is seconds"

func parseMillis(word string) (int, bool) {
	if _, err := strconv.Atoi(word); err == nil {
		word += "s"
	}
	d, err := time.ParseDuration(word)
	return int(d.Milliseconds()), err == nil && d%time.Millisecond == 0
}

func parseNumber(word string, bytes bool) (int, bool) {
	unit := 1
	if bytes {
		word, unit = cutSuffix(word)
	}
	n, err := strconv.ParseUint(word, 10, 62)
	if err != nil || n > uint64(math.MaxInt/unit) {
		return 0, false
	}
	return int(n) * unit, true
}

func cutSuffix(word string) (string, int) {
	for _, s := range suffixes {
		for _, end := range []string{s.letter + "ib", s.letter + "b", s.letter} {
			if number, ok := strings.CutSuffix(word, end); ok {
				return number, s.unit
			}
		}
	}
	return strings.TrimSuffix(word, "b"), 1
}
