package join

import (
	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/rendezvous"
)

// The errors of package pmi that a rank sees.
type (
	// MissingError names the ranks without which a fence has completed.
	MissingError = pmi.MissingError
	// Lost is one of them.
	Lost = pmi.Lost
)

// Classes of errors, for errors.Is. See package pmi.
var (
	ErrLauncherGone = pmi.ErrLauncherGone
	ErrProtocol     = pmi.ErrProtocol
	ErrRefused      = pmi.ErrRefused
	ErrNotFound     = pmi.ErrNotFound
	ErrClosed       = pmi.ErrClosed
	ErrEnvironment  = pmi.ErrEnvironment
)

const (
	// InitTimeoutEnv names the variable that bounds a start-up.
	InitTimeoutEnv = pmi.InitTimeoutEnv
	// SecretFileEnv names the variable that names the file of the job's secret.
	SecretFileEnv = rendezvous.SecretFileEnv
	// SecretLen is the length of the job's secret, in bytes.
	SecretLen = rendezvous.SecretLen
	// ExitFenced is the exit code of a rank that ends itself because the others have declared it
	// failed.
	ExitFenced = 71
)

// ExitStatus is the exit status of a process or a job that ends with a code: its low 8 bits, or 1 if none of them is
// set in a code that is not 0.
func ExitStatus(code int) int {
	if status := code & 0xff; status != 0 || code == 0 {
		return status
	}
	return 1
}
