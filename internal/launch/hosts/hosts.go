package hosts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Host is a machine on which ranks of a job run.
type Host struct {
	Name  string // for the remote shell
	Slots int    // the ranks for which it has room, at least 1
	// Env are variables of its ranks alone, "NAME=value".
	Env []string
	// FirstCPU is for [spawn.BindCore] where several entries are one machine: the position of its
	// first rank's CPU in the order of binding.
	FirstCPU int
}

// Parse reads a list such as "a:4,b:4,[fd00::7]:2,user@c". An entry
// without a number has one slot. A host that is named again gets more slots.
func Parse(list string) ([]Host, error) {
	var hosts hostList
	for entry := range strings.SplitSeq(list, ",") {
		h, err := parseHost(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("hosts: %w", err)
		}
		hosts.add(h)
	}
	return hosts.all, nil
}

// ReadFile reads a list of hosts, one a line: "a slots=4", "a:4" or "a". A # starts a comment. A
// host on several lines, as batch systems list it once for each slot, gets the slots of all. name
// is for errors.
func ReadFile(r io.Reader, name string) ([]Host, error) {
	var hosts hostList
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		h, err := parseHostLine(words)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		hosts.add(h)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(hosts.all) == 0 {
		return nil, fmt.Errorf("%s names no host: a line such as \"node1 slots=4\" is needed", name)
	}
	return hosts.all, nil
}

func parseHostLine(words []string) (Host, error) {
	h, err := parseHost(words[0])
	if err != nil || len(words) == 1 {
		return h, err
	}
	number, ok := strings.CutPrefix(words[1], "slots=")
	switch {
	case !ok || len(words) > 2:
		return h, fmt.Errorf("%s after the host: only slots=N is understood", pmi.Excerpt(strings.Join(words[1:], " ")))
	case strings.Contains(words[0], "]:") || strings.Count(words[0], ":") == 1:
		return h, fmt.Errorf("%s has its slots twice", pmi.Excerpt(strings.Join(words, " ")))
	}
	h.Slots, err = parseSlots(number)
	return h, err
}

// parseHost parses "host", "host:4" or "[address]:4". A name with several colons is an address of
// IPv6.
func parseHost(entry string) (Host, error) {
	h := Host{Name: entry, Slots: 1}
	number, counted := "", false
	if inner, ok := strings.CutPrefix(entry, "["); ok {
		var rest string
		if h.Name, rest, ok = strings.Cut(inner, "]"); !ok {
			return h, fmt.Errorf("%s has no closing bracket", pmi.Excerpt(entry))
		}
		if number, counted = strings.CutPrefix(rest, ":"); !counted && rest != "" {
			return h, fmt.Errorf("%s after the bracket of %s", pmi.Excerpt(rest), pmi.Excerpt(entry))
		}
	} else if strings.Count(entry, ":") == 1 {
		h.Name, number, counted = strings.Cut(entry, ":")
	}
	if err := checkHostName(h.Name); err != nil || !counted {
		return h, err
	}
	var err error
	h.Slots, err = parseSlots(number)
	return h, err
}

// checkHostName refuses a name that a remote shell would not take for a host.
func checkHostName(name string) error {
	bad := strings.IndexFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:@%+", r)
	})
	switch {
	case name == "":
		return errors.New("an empty name of a host")
	case name[0] == '-':
		return fmt.Errorf("%s is no name of a host: a remote shell would take it for an option", pmi.Excerpt(name))
	case bad >= 0:
		return fmt.Errorf("%s is no name of a host: it contains %q", pmi.Excerpt(name), name[bad:bad+1])
	}
	return nil
}

func parseSlots(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > proc.MaxIDs {
		return 0, fmt.Errorf("%s slots: a number in 1…%d is needed", pmi.Excerpt(text), proc.MaxIDs)
	}
	return n, nil
}

// hostList is hosts in the order in which they were named first.
type hostList struct {
	all []Host
	at  map[string]int // by name
}

// add adds a host, or its slots to those that it has.
func (l *hostList) add(h Host) {
	if i, ok := l.at[h.Name]; ok {
		l.all[i].Slots += h.Slots
		return
	}
	if l.at == nil {
		l.at = make(map[string]int)
	}
	l.at[h.Name] = len(l.all)
	l.all = append(l.all, h)
}

// Slots is the number of ranks for which hosts have room.
func Slots(hosts []Host) int {
	n := 0
	for _, h := range hosts {
		n += h.Slots
	}
	return n
}

// Share is the part of a job that runs on one host: ranks first … first+count-1.
type Share struct {
	Host
	first, Count int
}

// Assign gives the ranks to the hosts, host after host. With more ranks than slots it goes round.
func Assign(hosts []Host, n int, oversubscribe bool) ([]Share, error) {
	slots, named := 0, make(map[string]bool, len(hosts))
	for _, h := range hosts {
		if err := checkHostName(h.Name); err != nil {
			return nil, fmt.Errorf("launch: %w", err)
		}
		if h.Slots < 1 || h.Slots > proc.MaxIDs {
			return nil, fmt.Errorf("launch: host %s with %d slots: 1 to %d are possible", h.Name, h.Slots, proc.MaxIDs)
		}
		if named[h.Name] {
			return nil, fmt.Errorf("launch: host %s is named twice", h.Name)
		}
		named[h.Name] = true
		slots += h.Slots
	}
	if n > slots && !oversubscribe {
		return nil, fmt.Errorf("launch: %d ranks for %d slots: "+
			"give the hosts more slots (host:%d, or slots=%d in a file), or share the slots with --oversubscribe",
			n, slots, (n+len(hosts)-1)/len(hosts), (n+len(hosts)-1)/len(hosts))
	}
	var shares []Share
	first, rest := 0, n%slots
	for _, h := range hosts {
		count := n / slots * h.Slots
		more := min(rest, h.Slots)
		if count += more; count > 0 {
			shares = append(shares, Share{h, first, count})
		}
		first, rest = first+count, rest-more
	}
	return shares, nil
}

// NameOf names the host of a rank, "" where there are none.
func NameOf(shares []Share, rank int) string {
	i, found := slices.BinarySearchFunc(shares, rank, func(s Share, rank int) int { return s.first - rank })
	if !found {
		i--
	}
	if i < 0 {
		return ""
	}
	return shares[i].Name
}

// Mapping assigns the ranks to nodes. It is nil, so unknown to the ranks, where it does not fit a
// value of PMI-1: only with more than a hundred hosts of differing sizes.
func Mapping(shares []Share) pmi.Mapping {
	var m pmi.Mapping
	for node, s := range shares {
		if last := len(m) - 1; last >= 0 && m[last].PerNode == s.Count {
			m[last].Count++
			continue
		}
		m = append(m, pmi.Block{Node: node, Count: 1, PerNode: s.Count})
	}
	if len(m.String()) >= pmi.ValueMax {
		return nil
	}
	return m
}
