package p2p

// The default and the bound of [Limits], for who shows them or checks a user's
// numbers. Bytes.
const (
	// DefaultUnexpected is what Limits.Unexpected of 0 stands for.
	DefaultUnexpected = defaultUnexpected
	// LongestEager is the largest Limits.Eager: a receiver refuses longer
	// messages that were not announced.
	LongestEager = maxEager
)
