package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/alecthomas/kong"
)

// commands is the command line.
type commands struct {
	Run        runCmd        `cmd:"" help:"Start the ranks of a job, on this machine or on several."`
	Osu        osuCmd        `cmd:"" help:"Latency, bandwidth, collectives and start-up, in the format of the OSU micro-benchmarks."`
	Netpipe    netpipeCmd    `cmd:"" help:"Throughput at many sizes, as NetPIPE measures it."`
	Match      matchCmd      `cmd:"" help:"Time to match a message against the length of the queue."`
	Many       manyCmd       `cmd:"" help:"Costs of many ranks: first contact, steady messages, memory."`
	Fault      faultCmd      `cmd:"" help:"Costs of failures, such as the time from a death to its error."`
	Sim        simCmd        `cmd:"" help:"Collective operations among failures on a described machine, in virtual time."`
	Paper      paperCmd      `cmd:"" help:"Repeat the experiments of Hursey and Graham (2011); a report with figures."`
	Compare    compareCmd    `cmd:"" help:"Measure Banyan interleaved with UCX, Open MPI and MPICH."`
	Tune       tuneCmds      `cmd:"" help:"Find the thresholds and the algorithms of collectives that suit this machine; write them to files."`
	Info       infoCmd       `cmd:"" help:"Show every setting, its value here and where it comes from."`
	Doctor     doctorCmd     `cmd:"" help:"Check this machine for the needs of the fabrics, or print the fabric of each pair of ranks of a job."`
	Agent      agentCmd      `cmd:"" help:"Record exits of ranks on this machine with the kernel, for ranks that another launcher starts."`
	Tour       tourCmd       `cmd:"" help:"Latency and bandwidth in about a minute; results as files."`
	Manual     helpCmd       `cmd:"" name:"help" help:"Show the help of a command."`
	Completion completionCmd `cmd:"" help:"Make bash, zsh or fish complete ftbench's command lines."`
	Docs       docsCmd       `cmd:"" help:"The help of all commands, as a page for man or as Markdown."`

	Version kong.VersionFlag `help:"Show the version, the commit and the version of Go."`

	Complete completeCmd `cmd:"" hidden:"" help:"Completions of the last word."`
	Rank     rankCmd     `cmd:"" hidden:"" help:"One rank that takes samples on command."`
	Control  controlCmd  `cmd:"" hidden:"" help:"One side of the cache-line ping-pong."`
	Proxy    proxyCmd    `cmd:"" hidden:"" help:"The side of ftbench run on another host."`
	Meet     meetCmd     `cmd:"" hidden:"" help:"One rank that times collectives."`
	Mend     mendCmd     `cmd:"" hidden:"" help:"One rank that times recovery."`
	Crowd    crowdCmd    `cmd:"" hidden:"" help:"One rank that sends to all others."`
	Join     joinCmd     `cmd:"" hidden:"" help:"One rank that starts, meets and ends."`
}

func (commands) Help() string {
	return `Started alone, a benchmark starts its ranks itself; under ftbench run, mpiexec (MPICH)
or srun --mpi=pmi2 it joins the job. docs/benchmarks.md shows what each prints.

Examples:
  ftbench tour
  ftbench run -n 4 -- ./app
  ftbench doctor
  ftbench osu latency -m 8:8
  ftbench osu allreduce -n 4 -f --json results/allreduce.json
  ftbench netpipe --plot results/np.svg
  ftbench compare --only latency --max-time 30s`
}

// exitCode ends the program with a code and without words.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError is a wrong command line; the parser finds only some of them.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage makes an error one of the command line.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// usagef is usage of a new error.
func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

// The exit codes of doc.go.
const (
	exitFailed = 1
	exitUsage  = 2
	exitMissed = 3
	exitSignal = 128 // plus the signal's number
)

// call is one use of the command: its arguments and where it prints.
type call struct {
	args     []string
	out, err io.Writer
}

func main() { os.Exit(run(&call{os.Args[1:], os.Stdout, os.Stderr})) }

// run parses and carries out a command line and returns the exit code.
func run(to *call) int {
	code := -1
	parser := newParser(to, func(c int) { code = c })
	args := to.args
	if len(args) == 0 {
		args = []string{"--help"}
	}
	ctx, err := parser.Parse(args)
	if code >= 0 { // --help was printed; kong parses on after it
		return code
	}
	if err != nil {
		fmt.Fprintf(to.err, "ftbench: %s (see %s --help)\n", plain(err), wrongIn(err))
		return exitUsage
	}
	return finish(ctx.Run(to), to.err)
}

// Texts of the parser that name tokens of its own, or a remedy that is none.
var (
	noValue  = regexp.MustCompile(`expected \w+ value but got "EOL" \(<EOL>\)$`)
	negative = regexp.MustCompile(`expected \w+ value but got "(-[0-9][^"]*)" \(short flag\); perhaps try .*$`)
)

// plain is the text of an error of the parser, in words about the command line.
func plain(err error) string {
	return negative.ReplaceAllString(noValue.ReplaceAllString(err.Error(), "a value is missing"), "$1 is not possible: a number from 0 on is needed")
}

// wrongIn names the command whose help contains the missing part of a command line: the innermost
// that the parser had found.
func wrongIn(err error) string {
	name := "ftbench"
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) {
		return name
	}
	for _, step := range wrong.Context.Path {
		if step.Command != nil && !step.Command.Hidden {
			name += " " + step.Command.Name
		}
	}
	return name
}

// codeOf is the exit code of a command that has ended with an error.
func codeOf(err error) int {
	var code exitCode
	var signal interrupted
	var wrong usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &signal):
		return exitSignal + int(signal.by)
	case errors.As(err, &wrong):
		return exitUsage
	}
	return exitFailed
}

// finish prints an error, if it has words, and returns the exit code.
func finish(err error, to io.Writer) int {
	var code exitCode
	var signal interrupted
	switch {
	case err == nil || errors.As(err, &code):
	case errors.As(err, &signal):
		fmt.Fprintf(to, "ftbench: %v\n", signal)
	default:
		fmt.Fprintf(to, "ftbench: %v\n", err)
	}
	return codeOf(err)
}
