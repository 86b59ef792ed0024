package create

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// A leader that could not reach the other side sends a verdict to the ranks of its own, so that all of
// them get an error of the same class, with the ranks that have failed. Numbers are little endian:
//
//	class 1 | kind of the cause 1 | its code 4 | ranks 1 | local ranks 1 |
//	both, each 4, verdictRanks together at most | length of the name 1 | name of their communicator
const (
	verdictLen   = 1 + 1 + 4 + 1 + 1 + 4*verdictRanks + 1 + verdictName
	verdictRanks = 16 // of more the first are named
	verdictName  = 63 // bytes of a longer name
)

// classes are the classes of a verdict, by number; 0 is success, any other number an error of no
// class.
var classes = [...]error{1: ft.ErrProcFailed, 2: ft.ErrDeparted, 3: ft.ErrRevoked, 4: ft.ErrClosed, 5: ft.ErrArgument}

const unclassed = 255

var errLeader = errors.New("its own error says why")

// encodeVerdict writes the class and the ranks of an error. Precondition: len(b) is verdictLen.
func encodeVerdict(b []byte, err error) {
	clear(b)
	if err == nil {
		return
	}
	b[0] = unclassed
	revoked := errors.Is(err, ft.ErrRevoked) // also ErrProcFailed if a failure has revoked it
	for i, class := range classes {
		if i > 0 && revoked == (class == ft.ErrRevoked) && errors.Is(err, class) {
			b[0] = byte(i)
			break
		}
	}
	failed, ok := errors.AsType[*ft.ProcFailedError](err)
	if !ok {
		return
	}
	le := binary.LittleEndian
	b[1] = byte(failed.Cause.Kind)
	le.PutUint32(b[2:], uint32(failed.Cause.Code))
	remote := failed.Ranks[:min(len(failed.Ranks), verdictRanks)]
	local := failed.Local[:min(len(failed.Local), verdictRanks-len(remote))]
	b[6], b[7] = byte(len(remote)), byte(len(local))
	at := b[8:]
	for _, list := range [][]int{remote, local} {
		for _, rank := range list {
			le.PutUint32(at, uint32(rank))
			at = at[4:]
		}
	}
	name := b[8+4*verdictRanks:]
	if on, ok := errors.AsType[*errorOn](err); ok {
		name[0] = byte(copy(name[1:], on.comm))
	}
}

// errorOn is an error of another communicator than that of the operation, with the ranks of that
// communicator.
type errorOn struct {
	comm string
	err  error
}

func (e *errorOn) Error() string {
	err := e.err
	if op, ok := err.(*ft.OpError); ok { //nolint:errorlint // a message of the leader's
		err = op.Err
	}
	return "on " + e.comm + ": " + err.Error()
}

func (e *errorOn) Unwrap() error { return e.err }

// decodeVerdict reads the error that encodeVerdict wrote; nil if there was none.
func decodeVerdict(b []byte) error {
	switch class := int(b[0]); {
	case class == 0:
		return nil
	case class >= len(classes):
		return errLeader
	case classes[class] != ft.ErrProcFailed || int(b[6])+int(b[7]) > verdictRanks:
		return classes[class]
	}
	le := binary.LittleEndian
	failed := &ft.ProcFailedError{Cause: proc.Cause{Kind: proc.Kind(b[1]), Code: int32(le.Uint32(b[2:]))}}
	at := b[8:]
	take := func(n byte) (ranks []int) {
		for range n {
			ranks = append(ranks, int(le.Uint32(at)))
			at = at[4:]
		}
		return ranks
	}
	failed.Ranks, failed.Local = take(b[6]), take(b[7])
	name := b[8+4*verdictRanks:]
	if comm := strings.Map(printable, string(name[1:1+min(int(name[0]), verdictName)])); comm != "" {
		return &errorOn{comm, failed}
	}
	return failed
}

// printable replaces unprintable characters of a peer's name, which may have been cut within a
// letter.
func printable(r rune) rune {
	if r == utf8.RuneError || !unicode.IsPrint(r) {
		return '?'
	}
	return r
}
