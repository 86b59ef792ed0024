// Package vector folds many numbers at a time: the loops of the operations for which a processor has instructions.
//
//	loop := vector.Find(vector.Sum, reflect.Float64)
//	done := 0
//	if loop != nil {
//		done = loop(acc, in)
//	}
//	// the caller folds the rest of acc and in from done on
//
// A loop folds from the beginning as many whole groups of 32 bytes ([Group]) as there are and returns their length
// in bytes. The caller folds the rest; it needs a loop in Go anyway for machines without these instructions. Both
// give the same element, to the bit, also if it is no number or a zero with a sign: so ranks on machines of
// different kinds get the same bytes. Only the choice between two NaNs in a sum or a product is undefined.
//
// The instructions are AVX2's, detected when the program starts. Other machines, and operations without an
// instruction, have no loop.
//
// Why assembly: the compiler translates a loop over float64 to one that takes one element at a time, and a fold in
// the cache takes four times as long.
//
// A [Table] finds such loops for functions that the program names, such as the sum of two numbers of the public
// interface.
//
// [Stream] copies past the caches. [Take] copies data that are in the cache of another core.
//
// Floor 0.5.
package vector
