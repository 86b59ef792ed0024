package messages

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

func init() {
	roles["loans, store"] = storeIntoLoan
	roles["loans, late"] = useAfterReturn
	roles["loans, left"] = loanLeft
}

// faults reports whether fn accesses memory that it may not.
func faults(fn func()) (yes bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { yes = recover() != nil }()
	fn()
	return false
}

// lendOnce has rank 1 look at a loan of rank 0.
func lendOnce(w *banyan.World, look func(l *banyan.Loan) error) error {
	c := w.Comm()
	if c.Rank() == 0 {
		mem := allocated(w, 1, 100_000)
		err := c.Lend(mem[64:], 1, 1)
		if !bytes.Equal(mem, ranktest.Pattern(1, len(mem))) {
			err = errors.Join(err, errors.New("the lender's memory has changed"))
		}
		return errors.Join(err, banyan.Free(w, mem))
	}
	l, err := c.Borrow(0, 1)
	if err != nil {
		return err
	}
	return look(l)
}

// storeIntoLoan: a store into a view is a fault.
func storeIntoLoan(w *banyan.World) error {
	return lendOnce(w, func(l *banyan.Loan) error {
		if !faults(func() { l.Bytes()[5000] = 1 }) {
			return errors.New("a loan can be changed")
		}
		return l.Return()
	})
}

// useAfterReturn: under the debug setting access to a result of Bytes is a fault after Return.
func useAfterReturn(w *banyan.World) error {
	return lendOnce(w, func(l *banyan.Loan) error {
		b := l.Bytes()
		n := 0
		if faults(func() { n = int(b[5000]) }) {
			return errors.New("a loan cannot be read")
		}
		if err := l.Return(); err != nil {
			return err
		}
		if !faults(func() { n += int(b[5000]) }) {
			return fmt.Errorf("a loan can be read after its return: %d", n)
		}
		return nil
	})
}

func TestMisusedLoans(t *testing.T) {
	for _, debug := range []string{"off", "on"} {
		ranktest.Succeed(t, 2, "loans, store", "BANYAN_DEBUG="+debug)
	}
	ranktest.Succeed(t, 2, "loans, late", "BANYAN_DEBUG=on")
}

// loanLeft: Finalize returns the program's remaining loans, and the debug setting lists them.
func loanLeft(w *banyan.World) error {
	return lendOnce(w, func(*banyan.Loan) error { return nil })
}

func TestLoansLeftAtFinalize(t *testing.T) {
	ranktest.Succeed(t, 2, "loans, left", "BANYAN_DEBUG=off")
	_, out := ranktest.Job(t, launch.Continue, 2, "loans, left", "BANYAN_DEBUG=on")
	require.Contains(t, out, "left at Finalize: borrow of 99936 bytes from rank 0, tag 1")
}
