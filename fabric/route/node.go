package route

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// NameVariable names the node: processes with different names share no memory, also with all else
// in common.
const NameVariable = "BANYAN_NODE"

const maxName = 64

// Node is the place of a process: it decides with which processes it can share memory or use the
// sockets of its machine.
type Node struct {
	// Boot is the kernel's: it differs between machines, and between two boots of one.
	Boot [16]byte
	// PIDs, Users and Net are the inodes of the process's namespaces.
	PIDs, Users, Net uint64
	UID, GID         uint32
	// Caps are the effective capabilities, a bit each.
	Caps uint64
	// Hidden: the process is not dumpable, so others cannot read its memory.
	Hidden bool
	// Name is the value of [NameVariable], or "".
	Name string
}

// Here is the node of this process.
func Here() (Node, error) {
	n := Node{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Name: os.Getenv(NameVariable)}
	if len(n.Name) > maxName {
		return n, fmt.Errorf("route: %s has %d bytes, at most %d are possible", NameVariable, len(n.Name), maxName)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return n, fmt.Errorf("route: which boot this is: %w: /proc must be mounted", err)
	}
	if err := n.parseBoot(string(boot)); err != nil {
		return n, err
	}
	for _, s := range []struct {
		name string
		at   *uint64
	}{{"pid", &n.PIDs}, {"user", &n.Users}, {"net", &n.Net}} {
		var st unix.Stat_t
		if err := unix.Stat("/proc/self/ns/"+s.name, &st); err != nil {
			return n, fmt.Errorf("route: which %s namespace this is: newfstatat: %w", s.name, err)
		}
		*s.at = st.Ino
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return n, fmt.Errorf("route: the rights of this process: %w", err)
	}
	if err := n.parseCaps(string(status)); err != nil {
		return n, err
	}
	n.Hidden = hidden()
	return n, nil
}

// hidden reports whether this process is not dumpable. Where a seccomp profile refuses the
// question, the owner of its files in /proc shows it, except for root.
func hidden() bool {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err == nil {
		return dumpable != 1
	}
	var st unix.Stat_t
	return unix.Stat("/proc/self/stat", &st) != nil || int(st.Uid) != os.Geteuid()
}

// parseBoot parses a UUID.
func (n *Node) parseBoot(text string) error {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(text), "-", ""))
	if err != nil || len(b) != len(n.Boot) {
		return fmt.Errorf("route: the boot id %q is no UUID", strings.TrimSpace(text))
	}
	copy(n.Boot[:], b)
	return nil
}

// parseCaps finds the capabilities in the text of /proc/self/status.
func (n *Node) parseCaps(status string) (err error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			n.Caps, err = strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return err
		}
	}
	return errors.New("route: /proc/self/status does not say which capabilities this process has")
}

// traces reports whether the kernel lets the process trace every process of its user namespace.
func (n *Node) traces() bool { return n.Caps>>unix.CAP_SYS_PTRACE&1 != 0 }

// both formats two values, the smaller first, so that both sides produce the same text.
func both[T cmp.Ordered](a, b T) string {
	return fmt.Sprintf("(%v, %v)", min(a, b), max(a, b))
}

// apart returns the reason why two processes cannot share memory; "" if they can. It is symmetric.
func (n *Node) apart(o *Node) string {
	switch {
	case n.Boot != o.Boot:
		return "different machines"
	case n.Name != o.Name:
		return fmt.Sprintf("%s differs %s", NameVariable, both(strconv.Quote(n.Name), strconv.Quote(o.Name)))
	case n.PIDs != o.PIDs:
		return fmt.Sprintf("pid namespaces differ %s: run the containers with a shared pid namespace to use shared memory",
			both(n.PIDs, o.PIDs))
	case n.Users != o.Users:
		return fmt.Sprintf("user namespaces differ %s: run the processes in one to use shared memory", both(n.Users, o.Users))
	case n.traces() && o.traces():
		return ""
	case n.UID != o.UID || n.GID != o.GID:
		return fmt.Sprintf("users differ %s: run the processes as one user to use shared memory",
			both(fmt.Sprintf("%d:%d", n.UID, n.GID), fmt.Sprintf("%d:%d", o.UID, o.GID)))
	case n.Caps != o.Caps:
		return fmt.Sprintf("capabilities differ %s: give the processes the same to use shared memory",
			both(fmt.Sprintf("%#x", n.Caps), fmt.Sprintf("%#x", o.Caps)))
	case n.Hidden || o.Hidden:
		return "one of the processes may not be looked into (prctl PR_SET_DUMPABLE, a program with file capabilities, " +
			"or one that may not be read)"
	}
	return ""
}

// Shares reports whether two processes can share memory.
func (n *Node) Shares(o *Node) bool { return n.apart(o) == "" }

// SameNet reports whether two processes are in one network namespace, so that loopback joins them.
func (n *Node) SameNet(o *Node) bool { return n.Boot == o.Boot && n.Net == o.Net }

// group is equal for processes that can share memory, except hidden ones.
func (n *Node) group() Node {
	g := *n
	g.Net = 0
	if g.traces() {
		g.UID, g.GID, g.Hidden = 0, 0, false
		g.Caps = 1 << unix.CAP_SYS_PTRACE
	}
	return g
}
