package table

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Columns is the length of a line where there is no terminal.
const Columns = 80

// narrowest is the least length that text is fitted into.
const narrowest = 40

// Width is the number of columns of a terminal, and [Columns] of all else. A writer that passes on to
// another may have a method Columns() int.
func Width(w io.Writer) int {
	switch to := w.(type) {
	case interface{ Columns() int }:
		return to.Columns()
	case *os.File:
		size, err := unix.IoctlGetWinsize(int(to.Fd()), unix.TIOCGWINSZ)
		if err == nil && size.Col > 0 {
			return max(int(size.Col), narrowest)
		}
	}
	return Columns
}

// Printf prints lines that are wrapped to the width of w, as [Wrap] does.
func Printf(w io.Writer, format string, args ...any) error {
	_, err := io.WriteString(w, Wrap(fmt.Sprintf(format, args...), Width(w)))
	return err
}
