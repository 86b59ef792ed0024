package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// OSUWindows prints the table of osu_mbw_mr -V: a line for each size, a column for each window, in
// MB/s; below it the same in messages per second.
type OSUWindows struct {
	W        io.Writer
	Pairs    int
	Windows  []int
	Decimals int
	// Rate adds the second part.
	Rate bool

	sizes []int
	rates [][]float64
}

// The widths of its fields, in characters.
const (
	osuWindowsSize  = 7
	osuWindowsValue = 10
)

// Header prints the title and the line of windows.
func (t *OSUWindows) Header() error {
	return t.print(osuTitle(osuTables["mbw_mr"].title),
		fmt.Sprintf("# [ pairs: %d ] [ window size: varied ]\n", t.Pairs),
		"\n# Uni-directional Bandwidth (MB/sec)\n", t.windows())
}

// Row prints the line of a size, in bytes. seconds are those per message, over all pairs, one for
// each window.
func (t *OSUWindows) Row(size int, seconds []float64) error {
	rates, mbps := make([]float64, len(seconds)), make([]float64, len(seconds))
	for i, s := range seconds {
		rates[i] = 1 / s
		mbps[i] = float64(size) / s / 1e6
	}
	t.sizes, t.rates = append(t.sizes, size), append(t.rates, rates)
	return t.print(t.line(size, mbps, t.Decimals))
}

// End prints the second part, if it was asked for.
func (t *OSUWindows) End() error {
	if !t.Rate {
		return nil
	}
	out := []string{"\n# Message Rate Profile\n", t.windows()}
	for i, size := range t.sizes {
		out = append(out, t.line(size, t.rates[i], 2))
	}
	return t.print(out...)
}

func (t *OSUWindows) windows() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s", osuWindowsSize, "#")
	for _, w := range t.Windows {
		fmt.Fprintf(&b, "  %*d", osuWindowsValue, w)
	}
	b.WriteByte('\n')
	return b.String()
}

func (t *OSUWindows) line(size int, values []float64, decimals int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-*d", osuWindowsSize, size)
	for _, v := range values {
		fmt.Fprintf(&b, "  %*s", osuWindowsValue, strconv.FormatFloat(v, 'f', decimals, 64))
	}
	b.WriteByte('\n')
	return b.String()
}

// print writes lines one by one: a progress bar counts them.
func (t *OSUWindows) print(lines ...string) error {
	for _, line := range lines {
		if _, err := io.WriteString(t.W, line); err != nil {
			return fmt.Errorf("report: print the table: %w", err)
		}
	}
	return nil
}

// OSUInit prints the times of osu_init: those of start-up in the line that parsers look for, in
// milliseconds, and its parts as comments. OSU prints no decimals. The times are seconds: the
// smallest, the largest and the mean.
func OSUInit(w io.Writer, ranks, decimals int, total, join, barrier [3]float64) error {
	line := func(of string, t [3]float64, decimals int) string {
		ms := func(s float64) string { return strconv.FormatFloat(1e3*s, 'f', decimals, 64) }
		return fmt.Sprintf("%s, min: %s ms, max: %s ms, avg: %s ms\n", of, ms(t[0]), ms(t[1]), ms(t[2]))
	}
	_, err := io.WriteString(w, osuTitle("Init")+
		line("# Init alone", join, 2)+line("# first barrier", barrier, 2)+
		line(fmt.Sprintf("nprocs: %d", ranks), total, decimals))
	if err != nil {
		return fmt.Errorf("report: print the times: %w", err)
	}
	return nil
}
