// Package varint reads the frames of control protocols: unsigned varints and single bytes, taken
// off the front of bytes that another process wrote.
//
// A reader does not return errors. The first malformed value marks it as bad, later reads return
// zero, and the caller checks Bad once at the end.
//
// Floor 0. It imports nothing of Banyan's.
package varint
