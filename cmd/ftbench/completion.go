package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: ${enum}."`
}

// Help describes the installation in the shells.
func (completionCmd) Help() string {
	return `Prints what makes the shell complete commands, options and the values that an option
allows. The shell asks the ftbench that is being typed, so the script stays right
when ftbench changes; where there is nothing to offer, it completes files.

  bash  source <(ftbench completion bash), in ~/.bashrc
  zsh   source <(ftbench completion zsh), in ~/.zshrc after compinit
  fish  ftbench completion fish >~/.config/fish/completions/ftbench.fish

Examples:
  ftbench completion bash`
}

// scripts are read by the shells; each passes the words up to the cursor to ftbench complete.
var scripts = map[string]string{
	"bash": `_ftbench() {
	local IFS=$'\n'
	COMPREPLY=($("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o bashdefault -o default -F _ftbench ftbench
`,
	"zsh": `#compdef ftbench
_ftbench() {
	local -a found
	found=(${(f)"$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
	if (( ${#found} )); then compadd -a found; else _files; fi
}
compdef _ftbench ftbench
`,
	"fish": `function __ftbench_complete
	set -l w (commandline -opc)
	set -l found ($w[1] complete -- $w[2..-1] (commandline -ct) 2>/dev/null)
	if set -q found[1]
		printf '%s\n' $found
	else
		__fish_complete_path (commandline -ct)
	end
end
complete -c ftbench -f -a '(__ftbench_complete)'
`,
}

// Run prints the script.
func (c *completionCmd) Run(to *call) error {
	_, err := fmt.Fprint(to.out, scripts[c.Shell])
	return err
}

type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"The words after ftbench; the last is to be completed."`
}

// Run prints the possible completions of the last word, one a line.
func (c *completeCmd) Run(to *call, ctx *kong.Context) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, s := range candidates(ctx.Model.Node, words) {
		fmt.Fprintln(to.out, s)
	}
	return nil
}

// candidates are the possible completions of the last word; none if files or programs are expected.
func candidates(node *kong.Node, words []string) (found []string) {
	last := ""
	if n := len(words); n > 0 {
		words, last = words[:n-1], words[n-1]
	}
	var open *kong.Flag // the flag whose value comes next
	for _, w := range words {
		child := childOf(node, w)
		switch {
		case w == "=": // bash has it as a word of its own
		case open != nil:
			open = nil
		case w == "--":
			return nil
		case strings.HasPrefix(w, "-"):
			if f := flagOf(node, w); f != nil && !f.IsBool() {
				open = f
			}
		case child != nil:
			node = child
		case len(node.Children) == 0 && node.Name == "run": // the program: its words are its own
			return nil
		}
	}
	if last == "=" {
		last = ""
	}
	for _, s := range offers(node, open, last) {
		if strings.HasPrefix(s, last) {
			found = append(found, s)
		}
	}
	return found
}

// offers are all words that may stand at a place.
func offers(node *kong.Node, open *kong.Flag, last string) (all []string) {
	if open != nil {
		return values(open.Value)
	}
	if name, _, given := strings.Cut(last, "="); given && strings.HasPrefix(last, "--") {
		if f := flagOf(node, name); f != nil { // in bash = parts words: zsh and fish have them as one
			for _, v := range values(f.Value) {
				all = append(all, name+"="+v)
			}
		}
		return all
	}
	if strings.HasPrefix(last, "-") {
		for _, group := range node.AllFlags(true) {
			for _, f := range group {
				all = append(all, "--"+f.Name)
			}
		}
		return all
	}
	for _, child := range node.Children {
		if !child.Hidden {
			all = append(all, child.Name)
		}
	}
	for _, p := range node.Positional {
		all = append(all, values(p)...)
	}
	return all
}

// values are the values that an option or argument allows, if they are few.
func values(v *kong.Value) []string {
	if c, ok := v.Target.Interface().(interface{ choices() []string }); ok {
		return c.choices()
	}
	if v.Enum == "" {
		return nil
	}
	return v.EnumSlice()
}

// childOf is the command of that name under a node, or nil.
func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// flagOf is the flag that a word gives without a value of its own, or nil.
func flagOf(node *kong.Node, word string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if word == "--"+f.Name || f.Short != 0 && (word == "-"+string(f.Short) || word == "-np" && f.Short == 'n') {
				return f
			}
		}
	}
	return nil
}
