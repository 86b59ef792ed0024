// Package pattern fills buffers so that faults of a transport are detected: bytes that are lost,
// repeated, shifted, left from before, or of another message.
//
//	pattern.Fill(out, seed)   // the sender, another seed for each message
//	pattern.Spoil(in, seed)   // the receiver, before: bytes that are never written are wrong
//	wrong := pattern.Wrong(in, seed)
//
// It is no checksum against forgery. All functions may be called concurrently.
//
// Floor 0. It imports nothing.
package pattern
