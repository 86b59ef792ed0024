package banyan

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric/route"
)

// The variables that choose fabrics. BANYAN_NODE is package route's.
const (
	fabricVariable   = "BANYAN_FABRIC"
	networksVariable = "BANYAN_NETWORKS"
	verboseVariable  = "BANYAN_VERBOSE"
)

// allowed is the set of fabrics by the option, else by the environment, which may be
// nil.
func (o *options) allowed(getenv func(string) string) (route.Set, error) {
	if o.fabric != nil {
		s, err := route.ParseSet(*o.fabric)
		if err != nil {
			err = fmt.Errorf("%w: WithFabric: %w (the simulator is started by Simulate)", ErrArgument, err)
		}
		return s, err
	}
	if getenv == nil {
		return route.All, nil
	}
	text := getenv(fabricVariable)
	if text == "" {
		return route.All, nil
	}
	s, err := route.ParseSet(text)
	if err != nil {
		err = fmt.Errorf("%s=%s: %w", fabricVariable, text, err)
	}
	return s, err
}

// refused reports whether an error is that the kernel refuses a system call, as a seccomp profile has it do.
func refused(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS)
}

// cureOf is what helps if that is why a start has failed.
func cureOf(err error) string {
	if refused(err) {
		return " (if a seccomp profile refuses the system call, allow it there)"
	}
	return ""
}

// doesWithout gives shared memory up if the kernel refuses what it takes, and this process may use sockets. The card says so,
// so that the others open sockets too.
func (l *launched) doesWithout(err error) bool {
	if !refused(err) || l.self.Allowed&route.Sockets == 0 {
		return false
	}
	l.self.Allowed &= route.Sockets
	l.self.NoShm = err.Error()
	text := fmt.Sprintf("this rank shares no memory with others, and is reached by sockets: %v: allow the system call where a seccomp profile refuses it", err)
	if first(l.launcher) {
		l.Warn(text) // for all of its machine
	} else if l.logf != nil {
		l.logf("%s", text)
	}
	return true
}

// listed are the networks by the option, else by the environment; nil: all.
func (o *options) listed(getenv func(string) string) []string {
	text := getenv(networksVariable)
	if o.networks != nil {
		text = *o.networks
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// speak has remarks printed if the environment wants it and the program does not
// take them. The function returned says which rank this is, once it is known.
func (o *options) speak(getenv func(string) string) (as func(rank int)) {
	who := "banyan: "
	if v := getenv(verboseVariable); o.logf == nil && v != "" && v != "0" {
		o.logf = func(format string, args ...any) {
			fmt.Fprintln(os.Stderr, who+fmt.Sprintf(format, args...))
		}
	}
	return func(rank int) { who = fmt.Sprintf("banyan: rank %d: ", rank) }
}
