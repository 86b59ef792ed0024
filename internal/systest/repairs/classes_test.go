package repairs

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

// Each class of errors has its constant and name. Of several classes the first that the error wraps
// counts, and a failure is recognized at any place.
func TestClasses(t *testing.T) {
	for _, c := range []struct {
		err     error
		class   banyan.Class
		name    string
		failure bool
	}{
		{nil, banyan.ClassNone, "none", false},
		{&banyan.ProcFailedError{}, banyan.ClassProcFailed, "process failed", true},
		{&banyan.ProcFailedError{Pending: true}, banyan.ClassProcFailedPending, "process failed, receive pending", true},
		{fmt.Errorf("send: %w", banyan.ErrRevoked), banyan.ClassRevoked, "revoked", true},
		{fmt.Errorf("%w by %w", banyan.ErrRevoked, &banyan.ProcFailedError{}), banyan.ClassRevoked, "revoked", true},
		{fmt.Errorf("%w; at this rank: %w", &banyan.ProcFailedError{}, banyan.ErrRevoked), banyan.ClassProcFailed, "process failed", true},
		{errors.Join(errors.New("own"), banyan.ErrDeparted), banyan.ClassDeparted, "departed", false},
		{fmt.Errorf("recv: %w", banyan.ErrTruncate), banyan.ClassTruncate, "truncated", false},
		{banyan.ErrClosed, banyan.ClassClosed, "closed", false},
		{banyan.ErrArgument, banyan.ClassArgument, "argument", false},
		{fmt.Errorf("recv: %w", context.Canceled), banyan.ClassContext, "context", false},
		{context.DeadlineExceeded, banyan.ClassContext, "context", false},
		{errors.New("own"), banyan.ClassOther, "other", false},
	} {
		require.Equal(t, c.class, banyan.ClassOf(c.err), "%v", c.err)
		require.Equal(t, c.name, banyan.ClassOf(c.err).String())
		require.Equal(t, c.failure, banyan.IsFailure(c.err), "%v", c.err)
	}
	require.Equal(t, "Class(-1)", banyan.Class(-1).String())
	require.Equal(t, "Class(99)", banyan.Class(99).String())
}
