// Package wholefile writes files of results and settings. A reader sees the whole old file or the whole
// new one.
//
//	if err := wholefile.Check(path); err != nil { … } // before an hour of measuring
//	err := wholefile.Write(path, text, 0)
//
// google/renameio writes the new file beside the old one and renames it. This package adds the paths
// that a command line is given: links are followed first, and a FIFO, a device, or the file that is
// this process's standard output is written to and not replaced.
//
// # Limits
//
// Write does not wait until the directory is on the disk: after a crash of the machine the old file
// may be there. It locks nothing: the last of two writers wins.
//
// Floor 0: primitives of the operating system.
package wholefile
