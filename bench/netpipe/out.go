package netpipe

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
)

// Head is the line above those of [Line].
func Head() string {
	return fmt.Sprintf("%-5s%13s%13s%18s%19s", "# No", "Size", "Repeats", "Throughput", "Time")
}

// Line is a point as NetPIPE prints it, without the line's end: index, bytes, repeats, throughput,
// time. The time has a digit more than NetPIPE's: a tenth of a microsecond needs it.
func Line(index int, p Point) string {
	return fmt.Sprintf("%3d: %7d bytes %6d times --> %8.2f Mbps in %10.3f usec", index, p.Size, p.Repeats, p.Mbps,
		1e6*p.Seconds)
}

// WriteRow writes a point as a row of np.out: bytes, Mbps, seconds. NetPIPE writes 8 decimals of
// the seconds, which is 10 ns; here there are 12.
func WriteRow(w io.Writer, p Point) error {
	_, err := fmt.Fprintf(w, "%8d %f %16.12f\n", p.Size, p.Mbps, p.Seconds)
	return err
}

// Row is a row of np.out.
type Row struct {
	Bytes   int
	Mbps    float64
	Seconds float64
}

// ReadRows reads a file like np.out, NetPIPE's own or one of [WriteRow]. Lines that are empty or
// begin with # and columns after the third are passed over. The error names the line.
func ReadRows(r io.Reader) ([]Row, error) {
	var out []Row
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		row, err := parseRow(strings.Fields(text))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		out = append(out, row)
	}
	return out, lines.Err()
}

func parseRow(f []string) (Row, error) {
	if len(f) < 3 {
		return Row{}, fmt.Errorf("%d columns: bytes, Mbps and seconds are needed", len(f))
	}
	size, err := strconv.Atoi(f[0])
	if err != nil || size < 1 {
		return Row{}, fmt.Errorf("%q is no number of bytes", f[0])
	}
	row := Row{Bytes: size}
	for i, to := range []*float64{&row.Mbps, &row.Seconds} {
		if *to, err = strconv.ParseFloat(f[i+1], 64); err != nil || !(*to >= 0 && *to <= math.MaxFloat64) {
			return Row{}, fmt.Errorf("%q is no number from 0 on", f[i+1])
		}
	}
	return row, nil
}

// ReadFile is [ReadRows] of a file.
func ReadFile(path string) ([]Row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadRows(f)
}
