package hook

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ErrPrivilege is in the errors of a process that may not load the programs.
var ErrPrivilege = errors.New("root, or CAP_BPF and CAP_PERFMON (setcap cap_bpf,cap_perfmon+ep on the program), is needed outside of user namespaces")

// capable looks for the capabilities, for an error that names the one that lacks.
func capable() error {
	var caps [2]unix.CapUserData // version 3 has 64 bits, in two halves
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return fmt.Errorf("read the capabilities: %w", err)
	}
	has := func(bit int) bool { return caps[bit/32].Effective&(1<<(bit%32)) != 0 }
	if has(unix.CAP_SYS_ADMIN) {
		return nil
	}
	for _, c := range []struct {
		bit  int
		name string
	}{{unix.CAP_BPF, "CAP_BPF"}, {unix.CAP_PERFMON, "CAP_PERFMON"}} {
		if !has(c.bit) {
			return fmt.Errorf("no %s: %w", c.name, ErrPrivilege)
		}
	}
	return nil
}

// explained adds the package's name to an error and, if privileges are missing, the remedy. It
// contains the verifier's message in full.
func explained(err error) error {
	var refused *ebpf.VerifierError
	switch {
	case errors.Is(err, ErrPrivilege):
		return fmt.Errorf("exits: %w", err)
	case errors.As(err, &refused):
		return fmt.Errorf("exits: %w\n%+v", err, refused)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("exits: %w: %w", err, ErrPrivilege)
	default:
		return fmt.Errorf("exits: %w", err)
	}
}

// Available loads the programs, registers this process and unloads them. It reports whether the
// kernel can record ends here, and a description.
func Available() (bool, string) {
	h, err := Open()
	if err != nil {
		return false, strings.TrimPrefix(err.Error(), "exits: ")
	}
	if err := errors.Join(h.Register(os.Getpid()), h.Close()); err != nil {
		return false, err.Error()
	}
	return true, h.how()
}

// how describes the time at which the hook sees an end.
func (h *Hook) how() string {
	said := "the kernel records ends, by programs at sched_process_exit and signal_generate"
	if h.unseen != nil {
		said = fmt.Sprintf("the kernel records ends, by a program at sched_process_exit: a kill only when a thread has died of it, since there is none at signal_generate (%v)", h.unseen)
	}
	if h.noExec != nil {
		said += fmt.Sprintf("; no calls of exec (%v)", h.noExec)
	}
	if h.late {
		said += "; exits after the memory has been freed: Linux 6.16 records them before"
	}
	return said
}
