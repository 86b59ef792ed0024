// Package vector folds numbers many at a time: the loops of the operations that a processor has instructions for.
//
//	loop := vector.Find(vector.Sum, reflect.Float64)
//	done := 0
//	if loop != nil {
//		done = loop(acc, in)
//	}
//	// the caller folds what is left of acc and in from done on
//
// A loop folds from the beginning as many whole groups of 32 bytes ([Group]) as there are and says how many bytes that is. What is left is the caller's, who
// has a loop in Go for machines without these instructions anyway. An element comes out the same from either, to the bit, also where it is no number or a
// zero with a sign: so ranks on machines of different kinds get the same bytes. Only which of two NaNs a sum or a product keeps is not promised.
//
// The instructions are AVX2's, looked for when the program starts. Other machines, and operations without an instruction, have no loop.
//
// Why assembly: the compiler makes of a loop over float64 one that takes one element at a time, and a fold in the cache takes four times as long.
//
// A [Table] finds such loops for functions that the program names, such as the sum of two numbers of the public
// interface.
//
// [Stream] copies past the caches.
//
// Floor 0.5.
package vector
