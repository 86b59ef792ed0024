package spawn

import (
	"os"
	"slices"
	"strings"

	"github.com/banyan-hpc/banyan/internal/exits"
	"github.com/banyan-hpc/banyan/internal/nodemem"
)

// Exits has the kernel record how the ranks of a machine end, for the ranks to read:
// internal/exits/hook. It is an interface so that the launcher does not link a BPF library.
type Exits interface {
	// Files are the descriptors that ranks inherit.
	Files() []*os.File
	// Register is called for each rank before the launcher answers it.
	Register(pid int) error
	// Forget is called when it has ended, before its pid may come back.
	Forget(pid int) error
	// Close is called when all ranks of the machine have ended.
	Close() error
}

// OpenExits makes the Exits of the machine on which it is called, before ranks are started there.
// nil: none are wanted, or there is no way. An error keeps the job from starting. It may read the
// environment of the process, which on hosts is that of the ranks.
type OpenExits func() (Exits, error)

// inherited returns the descriptors that a rank inherits beside pmiFD, and env with the variables that
// name them.
func (s *Spawner) inherited(rank int, env []string) (files []*os.File, _ []string) {
	if s.exits != nil {
		env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, exits.Env+"=") })
		files = s.exits.Files()
		env = append(env, exits.Env+"="+exits.Variable(pmiFD+1, len(files)))
	}
	if s.node != nil {
		files = append(slices.Clip(files), s.node)
		env = append(slices.Clip(env), nodemem.Variable(pmiFD+len(files), rank-s.First))
	}
	return files, env
}
