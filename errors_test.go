package banyan

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each class of errors has its constant and name. Of several classes the first that the error wraps
// counts, and a failure is recognized at any place.
func TestClasses(t *testing.T) {
	for _, c := range []struct {
		err     error
		class   Class
		name    string
		failure bool
	}{
		{nil, ClassNone, "none", false},
		{&ProcFailedError{}, ClassProcFailed, "process failed", true},
		{&ProcFailedError{Pending: true}, ClassProcFailedPending, "process failed, receive pending", true},
		{fmt.Errorf("send: %w", ErrRevoked), ClassRevoked, "revoked", true},
		{fmt.Errorf("%w by %w", ErrRevoked, &ProcFailedError{}), ClassRevoked, "revoked", true},
		{fmt.Errorf("%w; at this rank: %w", &ProcFailedError{}, ErrRevoked), ClassProcFailed, "process failed", true},
		{errors.Join(errors.New("own"), ErrDeparted), ClassDeparted, "departed", false},
		{fmt.Errorf("recv: %w", ErrTruncate), ClassTruncate, "truncated", false},
		{ErrClosed, ClassClosed, "closed", false},
		{ErrArgument, ClassArgument, "argument", false},
		{fmt.Errorf("recv: %w", context.Canceled), ClassContext, "context", false},
		{context.DeadlineExceeded, ClassContext, "context", false},
		{errors.New("own"), ClassOther, "other", false},
	} {
		require.Equal(t, c.class, ClassOf(c.err), "%v", c.err)
		require.Equal(t, c.name, ClassOf(c.err).String())
		require.Equal(t, c.failure, IsFailure(c.err), "%v", c.err)
	}
	require.Equal(t, "Class(-1)", Class(-1).String())
	require.Equal(t, "Class(99)", Class(99).String())
}
