package banyan

import "github.com/banyan-hpc/banyan/ft"

// The classes of errors, for errors.Is. Each is explained in package ft.
var (
	ErrProcFailed        = ft.ErrProcFailed
	ErrProcFailedPending = ft.ErrProcFailedPending
	ErrRevoked           = ft.ErrRevoked
	ErrDeparted          = ft.ErrDeparted
	ErrTruncate          = ft.ErrTruncate
	ErrClosed            = ft.ErrClosed
	ErrArgument          = ft.ErrArgument
)

// The names of ErrProcFailed in run-through stabilization.
var (
	ErrProcFailStop = ft.ErrProcFailStop
	ErrRankFailStop = ft.ErrRankFailStop
)

// ProcFailedError tells which ranks an operation needed and has lost, and how
// they ended.
type ProcFailedError = ft.ProcFailedError
