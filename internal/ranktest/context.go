package ranktest

import "context"

// EndsOnceAsked is a context that has ended when it is asked for the second time: after an operation has started.
func EndsOnceAsked() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return &asked{Context: ctx}
}

type asked struct {
	context.Context
	before bool
}

func (a *asked) Err() error {
	if !a.before {
		a.before = true
		return nil
	}
	return a.Context.Err()
}
