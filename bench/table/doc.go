// Package table prints tables and text that fit the terminal: 80 columns where there is none.
//
//	t := table.Table{
//		W: os.Stdout, Title: "# Banyan barrier, µs", Keys: 1,
//		Columns: []table.Column{{Name: "# Ranks"}, {Name: "Time", Width: 9, Format: "%.2f"}},
//	}
//	err := t.Begin() // the title and the names of the columns
//	err = t.Row(16, 1.25)
//	err = t.End()
//
// Rows are printed as they come, so a column has its width before its values are known. Columns that
// do not fit stand in further blocks below, which repeat the columns that name a row; without such
// columns each row goes on in further lines. A last column of text wraps.
//
// It measures no results and knows no units.
//
// Floor 7: below all harnesses. All functions may be called concurrently; a [Table] is for one
// goroutine.
package table
