package peers

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// NPtcp is NetPIPE on bare sockets: a receiver that listens and a transmitter that connects to it
// through 127.0.0.1, pinned as the ranks of the others are. It has no option to listen on one
// address only: the receiver listens on all of them from its start until the transmitter has come,
// some milliseconds.
type NPtcp struct {
	program, pin string
	cpus         [2]int
}

// nptcpPackages is Debian's name for it.
const nptcpPackages = "netpipe-tcp"

// NewNPtcp finds the program. The error is a [*NotInstalledError] when a tool is missing.
func NewNPtcp(cpus [2]int) (*NPtcp, error) {
	pin, err := findPin("NPtcp")
	if err != nil {
		return nil, err
	}
	program, err := exec.LookPath("NPtcp")
	if err != nil {
		return nil, &NotInstalledError{Peer: "NPtcp", Tool: "NPtcp", Packages: nptcpPackages}
	}
	return &NPtcp{program, pin, cpus}, nil
}

// Commands returns the receiver and the transmitter. Both would write the output file: the
// receiver's goes nowhere, because the last -o counts.
func (n *NPtcp) Commands(port string, args ...string) (receiver, transmitter Command) {
	at := func(i int, more ...string) Command {
		argv := append([]string{n.pin, "-c", strconv.Itoa(n.cpus[i]), n.program, "-P", port}, args...)
		return Command{Argv: append(argv, more...), CPU: -1}
	}
	return at(1, "-o", os.DevNull), at(0, "-h", "127.0.0.1")
}

// Run runs both with the arguments until they have ended; see [RunProgram].
func (n *NPtcp) Run(ctx context.Context, limit time.Duration, args ...string) error {
	_, err := clientAndServer(ctx, limit, func(port, side int) Command {
		receiver, transmitter := n.Commands(strconv.Itoa(port), args...)
		return []Command{receiver, transmitter}[side]
	})
	return err
}
