package spawn

import (
	"os"
	"strings"

	"github.com/banyan-hpc/banyan/internal/exits"
)

// Exits has the kernel record how the ranks of a machine end, for the ranks to
// read: internal/exits/hook. Package launch only passes it on, so that who links
// it does not link a BPF library.
type Exits interface {
	// Files are what ranks inherit.
	Files() []*os.File
	// Register is called for each rank before the launcher answers it.
	Register(pid int) error
	// Forget is called when it has ended, before its pid may come back.
	Forget(pid int) error
	// Close is called when all ranks of the machine have ended.
	Close() error
}

// OpenExits makes the Exits of the machine on which it is called, where ranks are
// about to be started. nil: none are wanted, or there is no way. An error
// keeps the job from starting. It may look at the environment of the process,
// which on hosts is that of the ranks.
type OpenExits func() (Exits, error)

// startExits is called before the first rank is started.
func (s *Spawner) startExits() (err error) {
	if s.OpenExits != nil {
		s.exits, err = s.OpenExits()
	}
	return err
}

// register enters a rank that has just been started. An error is the rank's to
// notice, since it finds itself unregistered and watches its peers by other
// means: the job goes on.
func (s *Spawner) register(c *Process) {
	if s.exits != nil {
		_ = s.exits.Register(c.proc.Pid)
		c.exits = s.exits
	}
}

// forget takes out a rank that has ended.
func (c *Process) forget() {
	if c.exits != nil {
		_ = c.exits.Forget(c.proc.Pid) // what could not be recorded others notice by other means
	}
}

// closeExits ends what startExits began.
func (s *Spawner) closeExits() {
	if s.exits != nil {
		_ = s.exits.Close() // all ranks have ended: nobody is left to miss it
	}
}

// inherited are the descriptors of s.exits, and the variable that says so in
// place of what is in env.
func (s *Spawner) inherited(env []string) ([]*os.File, []string) {
	if s.exits == nil {
		return nil, env
	}
	kept := make([]string, 0, len(env)+1)
	for _, e := range env {
		if !strings.HasPrefix(e, exits.Env+"=") {
			kept = append(kept, e)
		}
	}
	files := s.exits.Files()
	return files, append(kept, exits.Env+"="+exits.Variable(pmiFD+1, len(files)))
}
