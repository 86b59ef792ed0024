package p2p

// The default and the bound of [Limits], for who shows them or checks a user's
// numbers. Bytes.
const (
	// DefaultUnexpected is what Limits.Unexpected of 0 stands for: two chunks.
	DefaultUnexpected = 1 << 20
	// LongestEager is the largest Limits.Eager: a receiver refuses longer
	// messages that were not announced, because it may have to buffer them.
	LongestEager = 64 << 20
)
