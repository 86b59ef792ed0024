// Package pattern fills buffers so that what a transport does wrong with them is
// noticed: bytes that are lost, repeated, shifted, left from before, or of another
// message.
//
//	pattern.Fill(out, seed)   // the sender, another seed for each message
//	pattern.Spoil(in, seed)   // the receiver, before: what is never written is wrong
//	wrong := pattern.Wrong(in, seed)
//
// It is no checksum: who wants to forge one can. All functions may be called
// concurrently.
//
// Floor 0. It imports nothing.
package pattern
