package netns

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrPrivilege is in the errors of a process that may not make network namespaces. Their text
// contains the remedy.
var ErrPrivilege = errors.New("network namespaces need root, or CAP_SYS_ADMIN and CAP_NET_ADMIN; without root try: " + cure)

// ErrKernel is in the errors where the running kernel lacks something. Their text names it.
var ErrKernel = errors.New("this kernel lacks a part that the network needs")

// cure is the command that gives a user the privileges. The names of namespaces
// are made under /run, which belongs to root.
const cure = "unshare -Urnm sh -c 'mount -t tmpfs run /run && COMMAND'"

// Check returns an error with the privilege that this process lacks to [Open] networks; it wraps
// [ErrPrivilege]. Nil: none is missing. Only Open detects missing features of the kernel.
func Check() error {
	var caps [2]unix.CapUserData // version 3 has 64 bits, in two halves
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return fmt.Errorf("netns: read the capabilities: %w", err)
	}
	for _, c := range []struct {
		bit  uint
		name string
	}{{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, {unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}} {
		if caps[0].Effective&(1<<c.bit) == 0 {
			return fmt.Errorf("netns: no %s: %w", c.name, ErrPrivilege)
		}
	}
	return nil
}

// privileged adds the cure to an error that a lack of privileges causes.
func privileged(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: %w", err, ErrPrivilege)
	}
	return err
}

// needs adds to an error the option that a kernel lacks which answers like this.
func needs(err error, option, module string) error {
	for _, e := range []error{unix.EOPNOTSUPP, unix.ENOENT, unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w: %s (try: modprobe %s)", err, ErrKernel, option, module)
		}
	}
	return privileged(err)
}
