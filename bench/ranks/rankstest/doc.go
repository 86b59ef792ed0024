// Package rankstest has the test binary of a harness be the ranks of the jobs that the harness starts: real processes, really killed.
//
//	func TestMain(m *testing.M) { rankstest.Main(m.Run, rank) }
//	result, err := Measure(ctx, options, rankstest.Job("agree 2"), …)
//
// A role says what a rank is to do; it means something to the rank only.
//
// Floor 7.
package rankstest
