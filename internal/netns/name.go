package netns

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// runDir is where iproute2 looks for namespaces that have names.
const runDir = "/run/netns"

// bridgePart is the last word of the bridge's namespace; a host has its number.
const bridgePart = "bridge"

// prefixWord has no dash, so that a name is read in one way only.
var prefixWord = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}$`)

// label is the contents of a name: the maker of a namespace, and its network.
type label struct {
	prefix string
	pid    int
	start  uint64 // of the process, in clock ticks after the machine's start
	number int    // of the network, on this machine
	part   string
}

func (l label) String() string {
	return fmt.Sprintf("%s-%d-%d-%d-%s", l.prefix, l.pid, l.start, l.number, l.part)
}

// parseLabel parses a name. It rejects names that String would not return.
func parseLabel(name string) (label, bool) {
	w := strings.Split(name, "-")
	if len(w) != 5 || !prefixWord.MatchString(w[0]) {
		return label{}, false
	}
	l := label{prefix: w[0], part: w[4]}
	var err [4]error
	l.pid, err[0] = strconv.Atoi(w[1])
	l.start, err[1] = strconv.ParseUint(w[2], 10, 64)
	l.number, err[2] = strconv.Atoi(w[3])
	if l.part != bridgePart {
		_, err[3] = strconv.ParseUint(l.part, 10, 16)
	}
	return l, errors.Join(err[:]...) == nil && l.pid > 0 && l.String() == name
}

// orphan reports whether the maker of a namespace is known to be dead.
func (l label) orphan() bool {
	start, alive, err := birth(l.pid)
	return err == nil && (!alive || start != l.start)
}

// birth reads when a process started. A zombie is not alive: it cleans up
// nothing any more.
func birth(pid int) (start uint64, alive bool, err error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	if start, alive, err = started(string(b)); err != nil {
		err = fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return start, alive, err
}

// started reads when a process started, and whether it is alive, from its entry in /proc.
func started(text string) (start uint64, alive bool, err error) {
	// The second field is the command's name in parentheses and may hold anything.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const state, starttime = 0, 19 // the third and the 22nd as proc(5) counts
	if len(fields) <= starttime {
		return 0, false, fmt.Errorf("%d fields after the name", len(fields))
	}
	start, err = strconv.ParseUint(fields[starttime], 10, 64)
	return start, err == nil && !strings.Contains("ZXx", fields[state]), err
}

// labels lists the namespaces of all processes that use this package.
func labels() ([]label, error) {
	entries, err := os.ReadDir(runDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("netns: list the namespaces: %w", err)
	}
	var found []label
	for _, e := range entries {
		if l, ok := parseLabel(e.Name()); ok {
			found = append(found, l)
		}
	}
	return found, nil
}

// Sweep removes the names with a prefix ("" is the default) of namespaces whose makers are dead, and returns
// them. [Open] does it by itself. The namespaces have ended with their makers, except for those in which a
// process still runs: it continues without a link. It may be called concurrently, also by several processes.
func Sweep(prefix string) (removed []string, err error) {
	prefix = cmp.Or(prefix, DefaultPrefix)
	found, err := labels()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, l := range found {
		if l.prefix != prefix || !l.orphan() {
			continue
		}
		if err := removeName(l.String()); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, l.String())
	}
	return removed, errors.Join(errs...)
}

// removeName takes the name off a namespace. A name that is not there is no error.
func removeName(name string) error {
	path := filepath.Join(runDir, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("netns: remove %s: %w", path, err)
	}
	return nil
}
