package coll

// failure is the error of an operation that has met one.
type failure struct {
	op    string
	cause error
}

// Error names the operation and what it has met.
func (f *failure) Error() string { return f.op + ": " + f.cause.Error() }

// Unwrap gives what it has met.
func (f *failure) Unwrap() error { return f.cause }
