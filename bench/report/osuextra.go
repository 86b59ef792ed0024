package report

import (
	"cmp"
	"fmt"
	"io"
	"strconv"

	"github.com/banyan-hpc/banyan/bench/table"
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

	bandwidth, rate table.Table
	rates           [][]any
}

// The widths of its fields, in characters.
const (
	osuWindowsSize  = 7
	osuWindowsValue = 10
)

// Header prints the title and the line of windows.
func (t *OSUWindows) Header() error {
	t.bandwidth, t.rate = t.windows("# Uni-directional Bandwidth (MB/sec)"), t.windows("# Message Rate Profile")
	err := t.print(osuTitle(osuTables["mbw_mr"].title),
		fmt.Sprintf("# [ pairs: %d ] [ window size: varied ]\n", t.Pairs), "\n")
	if err != nil {
		return err
	}
	return printed(t.bandwidth.Begin())
}

// Row prints the line of a size, in bytes. seconds are the times per message, over all pairs, one
// for each window.
func (t *OSUWindows) Row(size int, seconds []float64) error {
	rates, mbps := []any{size}, []any{size}
	for _, s := range seconds {
		rates = append(rates, number(1/s, 2))
		mbps = append(mbps, number(float64(size)/s/1e6, t.Decimals))
	}
	t.rates = append(t.rates, rates)
	return printed(t.bandwidth.Row(mbps...))
}

// End prints the windows that did not fit beside the others, and the second part, if it was asked for.
func (t *OSUWindows) End() error {
	if err := t.bandwidth.End(); err != nil || !t.Rate {
		return printed(err)
	}
	return cmp.Or(t.print("\n"), printed(t.rate.Write(t.rates)))
}

// windows is a table with a column for each window.
func (t *OSUWindows) windows(title string) table.Table {
	columns := []table.Column{{Name: "#", Width: osuWindowsSize, Left: true}}
	for _, w := range t.Windows {
		columns = append(columns, table.Column{Name: strconv.Itoa(w), Width: osuWindowsValue})
	}
	return table.Table{W: t.W, Title: title, Keys: 1, Columns: columns}
}

// printed names the step in an error of a table.
func printed(err error) error {
	if err != nil {
		return fmt.Errorf("report: print the table: %w", err)
	}
	return nil
}

// print writes lines one by one: a progress bar counts them.
func (t *OSUWindows) print(lines ...string) error {
	for _, line := range lines {
		if _, err := io.WriteString(t.W, line); err != nil {
			return printed(err)
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

// OSUHello prints the lines of osu_hello.
func OSUHello(w io.Writer, ranks int) error {
	_, err := fmt.Fprintf(w, "%sThis is a test with %d processes\n", osuTitleOf("Hello World", "7.4"), ranks)
	return printed(err)
}
