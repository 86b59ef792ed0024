package launch

import (
	"github.com/banyan-hpc/banyan/internal/launch/hosts"
	"github.com/banyan-hpc/banyan/internal/launch/spawn"
)

// The parts of a [Spec] and a [Result] that packages below define.
type (
	// Policy decides whether the other ranks go on when one fails.
	Policy = spawn.Policy
	// Bind decides on which CPUs ranks run.
	Bind = spawn.Bind
	// End is how one rank ended.
	End = spawn.End
	// Exits has the kernel record how ranks end.
	Exits = spawn.Exits
	// OpenExits makes the Exits of the machine on which it is called.
	OpenExits = spawn.OpenExits
	// Host is a machine on which ranks run.
	Host = hosts.Host
	// Shell starts a command on a host.
	Shell = hosts.Shell
)

// See package spawn.
const (
	Continue = spawn.Continue
	Abort    = spawn.Abort
	BindNone = spawn.BindNone
	BindCore = spawn.BindCore
)
