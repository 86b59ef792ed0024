// Package wholefile writes files of results and settings so that who reads
// meanwhile sees the whole old file or the whole new one.
//
//	if err := wholefile.Check(path); err != nil { … } // before an hour of measuring
//	err := wholefile.Write(path, text, 0)
//
// A new file is made beside the old one under a random name and renamed, so a
// path that is a link must be followed first, and one that is no regular file
// must not be replaced at all: a FIFO has a reader, and /dev/null belongs to
// everybody. Such a path is written to as it is.
//
// # What it does not do
//
// It does not wait until the directory is on the disk: after a crash of the
// machine there may be the old file. It locks nothing: of two writers the last
// one wins.
//
// Floor 0: primitives of the operating system.
package wholefile
