package ranktest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/banyan-hpc/banyan"
)

// BothProfiles are the profiles of failure handling.
var BothProfiles = []banyan.Profile{banyan.ULFM, banyan.RTS}

// Sizes are lengths of messages for each of the protocols: one frame, fragments, announced.
var Sizes = []int{0, 8, 3000, 14_000, 200_000}

// WantStatus checks the status of a received message.
func WantStatus(st banyan.Status, src, tag, size int) error {
	if st != (banyan.Status{Source: src, Tag: tag, Count: size}) {
		return fmt.Errorf("got %+v, want source %d, tag %d, %d bytes", st, src, tag, size)
	}
	return nil
}

// Pattern is size bytes that depend on a rank.
func Pattern(rank, size int) []byte {
	const period = 1 << 16
	b := make([]byte, size)
	for i := range b[:min(size, period)] {
		b[i] = byte(rank*7 + i*13 + i>>8)
	}
	for n := period; n < size; n *= 2 {
		copy(b[n:], b[:n])
	}
	return b
}

// CheckEqual checks received data.
func CheckEqual(got, want []byte) error {
	if !bytes.Equal(got, want) {
		return errors.New("the data are wrong")
	}
	return nil
}

// Iota is the numbers 0 to n-1.
func Iota(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// WantFailed checks that an error names the failure of this rank alone.
func WantFailed(err error, rank int) error {
	var failed *banyan.ProcFailedError
	if !errors.As(err, &failed) || len(failed.Ranks) != 1 || failed.Ranks[0] != rank {
		return fmt.Errorf("want the failure of rank %d, got: %v", rank, err)
	}
	return nil
}

// WantFailure checks that an operation has ended because some rank failed.
func WantFailure(what string, err error) error {
	if !errors.Is(err, banyan.ErrProcFailed) && !errors.Is(err, banyan.ErrProcFailedPending) {
		return fmt.Errorf("%s: want the failure of a rank, got: %w", what, err)
	}
	return nil
}

// BarrierUntilError calls Barrier until it fails.
func BarrierUntilError(c *banyan.Comm) error {
	for {
		if err := c.Barrier(); err != nil {
			return err
		}
	}
}

// RanksIn are the ranks in a communicator of a group's members, in the group's order.
func RanksIn(g banyan.Group, c *banyan.Comm) []int {
	in, err := g.Translate(Iota(g.Size()), c.Group())
	if err != nil {
		panic(err)
	}
	return in
}

// ErrorOf is the error among the results of a call by reflection; of a request, the error that it
// ends with. fallible is false if there is none of these.
func ErrorOf(results []reflect.Value) (err error, fallible bool) {
	for _, r := range results {
		switch x := r.Interface().(type) {
		case banyan.Request:
			_, err = x.Wait()
			return err, true
		case *banyan.Persistent:
			_, err = x.Start().Wait()
			return err, true
		case error:
			return x, true
		}
		if r.Type() == reflect.TypeFor[error]() {
			return nil, true
		}
	}
	return nil, false
}
