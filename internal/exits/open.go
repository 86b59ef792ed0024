package exits

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// DefaultAgent is the address of an agent if [Env] is not set: a Unix socket in a directory that
// only root may make and write to, so that no other user can take the agent's place. Any user could
// take an abstract name.
const DefaultAgent = "/run/banyan/agent.sock"

// ErrNone is in the errors of [Open] if no agent or launcher offers a record. It is no mistake of
// the user.
var ErrNone = errors.New("no process on this machine reports exits")

// Open makes the table of this process: of the descriptors in [Env], else from the agent. Call it
// once, after the launcher has answered, since that registers a rank before it answers. An error
// contains the reason; the process then has to detect ends by other means.
//
// The inherited descriptors are taken over and will not be inherited further. A process that its
// parent has not registered gets no table of them.
func Open() (*Table, error) {
	switch text := os.Getenv(Env); {
	case text == Off:
		return nil, fmt.Errorf("exits: %s=%s: %w", Env, Off, ErrNone)
	case text == On:
		return nil, fmt.Errorf("exits: %s=%s is for ftbench run, which has not started this process: %w", Env, On, ErrNone)
	case text == "":
		return Dial(DefaultAgent)
	case Named():
		return Dial(text)
	default:
		return inherited(text)
	}
}

// Named reports whether [Env] is the address of an agent.
func Named() bool {
	text := os.Getenv(Env)
	return strings.HasPrefix(text, "@") || strings.HasPrefix(text, "/")
}

func inherited(text string) (*Table, error) {
	fds, err := parse(text)
	if err != nil {
		return nil, err
	}
	// No descriptor is closed before it is known to be the right one: another file may have got a
	// number that a wrapper has closed.
	for i, fd := range fds {
		if err := checkKind(fd, kindOf(i)); err != nil {
			return nil, fmt.Errorf("%w (%s=%s: did a wrapper close it?)", err, Env, text)
		}
	}
	t, err := New(fds)
	if err != nil {
		return nil, err
	}
	if !t.Watched(os.Getpid()) {
		return nil, errors.Join(fmt.Errorf("exits: process %d was not registered by the launcher, which has perhaps started a script: let it end with exec", os.Getpid()), t.Close())
	}
	return t, nil
}

// parse reads different descriptors above the standard ones.
func parse(text string) (fds []int, err error) {
	parts := strings.Split(text, ",")
	ok := len(parts) >= MinFiles && len(parts) <= MaxFiles
	for i := 0; ok && i < len(parts); i++ {
		fd, err := strconv.Atoi(parts[i])
		ok = err == nil && fd > 2 && fd < 1<<20 && !slices.Contains(fds, fd)
		fds = append(fds, fd)
	}
	if !ok {
		return nil, fmt.Errorf("exits: %s=%q: %d to %d descriptors such as 4,5,6,7, the address of an agent (@name or /path), or %s", Env, text, MinFiles, MaxFiles, Off)
	}
	return fds, nil
}

// Types of BPF maps, as the kernel shows them in fdinfo.
const (
	arrayType = "2"
	ringType  = "27"
)

// kindOf is the type of the map that is passed as number i, "" for a link.
func kindOf(i int) string {
	if i < 2 {
		return [...]string{arrayType, ringType}[i]
	}
	return ""
}

// checkKind looks whether a descriptor is a BPF map of a type, or with "" a link.
func checkKind(fd int, mapType string) error {
	f, err := os.Open(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return fmt.Errorf("exits: descriptor %d is not open: %w", fd, err)
	}
	defer f.Close()
	return hasKind(f, fd, mapType)
}

// hasKind looks for a map of a type, or with "" a link, in the kernel's description of a
// descriptor.
func hasKind(info io.Reader, fd int, mapType string) error {
	want, what := "map_type:\t"+mapType, "a BPF map of type "+mapType
	if mapType == "" {
		want, what = "link_type:\t", "a BPF link"
	}
	lines := bufio.NewScanner(info)
	for lines.Scan() {
		if l := lines.Text(); l == want || mapType == "" && strings.HasPrefix(l, want) {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("exits: descriptor %d is not %s", fd, what), lines.Err())
}
