package vector

import "reflect"

// Op is an operation on two numbers.
type Op uint8

// The operations.
const (
	Sum Op = iota
	Prod
	Min
	Max
)

// Group is the fewest bytes that a loop folds.
const Group = 32

// Loop folds elements of in into acc, and returns the number of folded bytes from the beginning: all whole groups.
// They need no alignment and do not overlap. Preconditions: in is as long as acc or longer. It may be called by
// several goroutines at once.
type Loop func(acc, in []byte) (done int)

// Find gives the loop of an operation on numbers of that kind; nil: there is none on this machine.
func Find(op Op, kind reflect.Kind) Loop {
	return loops[key{op, kind}]
}

type key struct {
	op   Op
	kind reflect.Kind
}
