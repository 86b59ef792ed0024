package ft

import (
	"fmt"
	"strings"
)

// OpError is the error of an operation. It wraps a class or another type of error, for errors.Is and
// errors.As. Its text is formatted on demand:
//
//	banyan: Recv(src 3, tag 7) on world at rank 0: rank 3 has failed: killed by SIGKILL
type OpError struct {
	Op   string // the operation: "Recv", "Bcast", "Ibcast", …; a send of any kind is "Send"
	Args Args   // its arguments, as far as they are numbers
	Comm string // the communicator's name; "": there is none
	Rank int    // this process's rank in it; negative: it has none
	// Peer is the source or destination of a message. For another operation it is the rank whose
	// message or end ended it. In an intercommunicator it is on the remote side; -1: any, several or
	// none.
	Peer int
	Err  error // the cause
}

// NoPeer is the Peer of an error that no single rank is a part of.
const NoPeer = -1

// Args are the arguments of an operation; those without a name are none.
type Args [3]Arg

// Arg is an argument: its name, as "src", "dst", "tag", "root" or "bytes", and its value.
type Arg struct {
	Name  string
	Value int
}

// String gives the arguments as the operation's caller wrote them: "src 3, tag any".
func (a Args) String() string {
	var b strings.Builder
	for _, arg := range a {
		if arg.Name == "" {
			break
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		switch {
		case arg.Name == "bytes":
			fmt.Fprintf(&b, "%d bytes", arg.Value)
		case arg.Value == -1 && a[0].Name == "src":
			b.WriteString(arg.Name + " any")
		default:
			fmt.Fprintf(&b, "%s %d", arg.Name, arg.Value)
		}
	}
	return b.String()
}

// prefix begins the text of each error of an operation.
const prefix = "banyan: "

// Error gives the text.
func (e *OpError) Error() string {
	text := prefix + e.Operation()
	if e.Rank >= 0 {
		text += fmt.Sprintf(" at rank %d", e.Rank)
	}
	return text + ": " + Bare(e.Err)
}

// Operation describes the operation: "Recv(src 3, tag 7) on world".
func (e *OpError) Operation() string {
	text := e.Op
	if args := e.Args.String(); args != "" {
		text += "(" + args + ")"
	}
	if e.Comm != "" {
		text += " on " + e.Comm
	}
	return text
}

// Unwrap gives the cause.
func (e *OpError) Unwrap() error { return e.Err }

// Bare is the text of an error without the prefixes in it, for a text that has one.
func Bare(err error) string { return strings.ReplaceAll(err.Error(), prefix, "") }

// ErrorOf returns the error of an operation, described by o, from its cause, or from the error of an
// operation that was a part of it, with its peer. Nil stays nil.
func ErrorOf(o *OpError, err error) error {
	if err == nil {
		return nil
	}
	o.Err = err
	switch e := err.(type) { //nolint:errorlint // one within others has a text of its own
	case *OpError:
		if o.Err = e.Err; e.Comm == o.Comm {
			o.Peer = e.Peer
		}
	case *ProcFailedError:
		if len(e.Ranks) == 1 {
			o.Peer = e.Ranks[0]
		}
	}
	return o
}
