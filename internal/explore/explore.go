package explore

import "fmt"

// World is a state of a model of type W whose steps are of type S.
type World[W, S any] interface {
	// Print is a number for the state, the same for states from which the same may happen.
	Print() uint64
	// Steps are the possible next steps.
	Steps() []S
	// Check gives an error if something is wrong in the state, in which these steps may be next.
	Check(next []S) error
	// Clone is a copy, which shares nothing that a step changes.
	Clone() W
	// Do does a step.
	Do(S)
}

// All tries the steps of a world in every order, each state once, and at most so many states. It returns
// the first thing that is wrong with the steps that led there, and the number of states.
func All[W World[W, S], S any](first W, most int) (states int, err error) {
	seen := map[uint64]bool{}
	var visit func(w W, path []S) error
	visit = func(w W, path []S) error {
		id := w.Print()
		if seen[id] || len(seen) >= most {
			return nil
		}
		seen[id] = true
		steps := w.Steps()
		if err := w.Check(steps); err != nil {
			return fmt.Errorf("%w, after %v", err, path)
		}
		for _, s := range steps {
			next := w.Clone()
			next.Do(s)
			if err := visit(next, append(path, s)); err != nil {
				return err
			}
		}
		return nil
	}
	err = visit(first, nil)
	return len(seen), err
}
