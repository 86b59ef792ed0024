package hosts

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
)

// Shell starts a command on a host, as ssh does. It may change cmd. The process that it starts must
// have the standard streams of cmd, pass them on byte for byte, and end when the command ends. It
// runs in a session of its own, without a terminal: it cannot ask for a password.
type Shell func(host string, cmd *exec.Cmd) error

// DefaultShell is the default for [ParseShell]. It notices a silently dead connection within a
// minute.
const DefaultShell = "ssh -o BatchMode=yes -o ServerAliveInterval=15 -T {host}"

// hostWord stands for the name of the host.
const hostWord = "{host}"

// ParseShell makes a Shell from a command line such as "ip netns exec {host}". The name of the host
// replaces {host}, or is the last word if there is none; the command follows. Quotes and
// backslashes keep words together as in a shell; nothing else is special.
func ParseShell(line string) (Shell, error) {
	words, err := splitWords(line)
	if err != nil {
		return nil, fmt.Errorf("remote shell %s: %w", pmi.Excerpt(line), err)
	}
	if len(words) == 0 {
		return nil, errors.New("the remote shell is an empty command")
	}
	if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, hostWord) }) {
		words = append(words, hostWord)
	}
	return func(host string, cmd *exec.Cmd) error {
		if err := checkRemoteCommand(cmd.Args); err != nil {
			return err
		}
		var all []string
		for _, w := range words {
			all = append(all, strings.ReplaceAll(w, hostWord, host))
		}
		path, err := exec.LookPath(all[0])
		if err != nil {
			return fmt.Errorf("remote shell: %w", err)
		}
		cmd.Path, cmd.Args = path, append(all, cmd.Args...)
		return cmd.Start()
	}, nil
}

// splitWords splits a line into words. It handles single and double quotes and backslashes.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	started := false
	quote, escaped := rune(0), false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, started = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, started = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if started {
				words = append(words, word.String())
				word.Reset()
			}
			started = false
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quote or a backslash at the end is open")
	}
	if started {
		words = append(words, word.String())
	}
	return words, nil
}

// checkRemoteCommand refuses words that ssh, which joins them for a shell to split, and programs
// that take them unchanged would understand differently.
func checkRemoteCommand(argv []string) error {
	for _, w := range argv {
		bad := strings.IndexFunc(w, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./+:=@,%", r)
		})
		if bad >= 0 || w == "" {
			return fmt.Errorf("%s cannot be passed through every remote shell: letters, digits and -_./+:=@,%% are safe; "+
				"make a link with such a name and give it with --remote-ftbench", pmi.Excerpt(w))
		}
	}
	return nil
}
