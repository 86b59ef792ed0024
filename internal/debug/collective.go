package debug

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/p2p"
)

// None is the Root, and the Length, of a collective that has none.
const None = -1

// Collective describes a rank's call of a collective.
type Collective struct {
	Op           string // the operation: bcast, ibcast, split, …
	Root, Length int    // of Length bytes
	Kind         Kind   // of the elements
	Unit         int    // of a reduction in elements, the bytes of one
	AnyOrder     bool
	Fold         string // the operation of a reduction, as By gives it
	Name, Where  string // as Caller gives them
}

// Plain is a collective without arguments that are alike at all ranks.
func Plain(op string) Collective { return Collective{Op: op, Root: None, Length: None} }

// By is the collective with the operation op of a reduction, or with nil.
func (c Collective) By(op any) Collective {
	if op != nil {
		c.Kind, c.Fold = KindOf(elementOf(op)), foldName(op)
	}
	return c
}

// arguments describes the arguments that must be the same at all ranks, as a text.
func (c Collective) arguments() string {
	text := c.Op
	if c.Length != None {
		text += fmt.Sprintf(" of %d bytes", c.Length)
	}
	if c.Unit > 0 {
		text += fmt.Sprintf(" in elements of %d", c.Unit)
	}
	if c.Root != None {
		text += fmt.Sprintf(" with root %d", c.Root)
	}
	if c.AnyOrder {
		text += " in any order"
	}
	return text
}

// call describes the call in this process.
func (c Collective) call(on *p2p.Comm) Call {
	s := signatureOf(c)
	return Call{What: s.what() + " on " + on.Name(), Where: c.Where}
}

// signature is a Collective as it travels. A rank that is agreed to have failed has a zero one.
type signature [256]byte

// The texts of a signature end with a zero, or their field. A path too long for its field loses its begin.
const (
	atKind, atArguments, atFold, atName, atWhere = 1, 2, 98, 146, 178
)

func signatureOf(c Collective) (s signature) {
	s[0], s[atKind] = 1, byte(c.Kind)
	copy(s[atArguments:atFold], c.arguments())
	copy(s[atFold:atName], c.Fold)
	copy(s[atName:atWhere], c.Name)
	copy(s[atWhere:], c.Where[max(0, len(c.Where)-(len(s)-atWhere)):])
	return s
}

// text is one that another rank has written.
func (s *signature) text(from, to int) string {
	text, _, _ := bytes.Cut(s[from:to], []byte{0})
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, string(text))
}

func (s *signature) arguments() string { return s.text(atArguments, atFold) }

func (s *signature) fold() string { return s.text(atFold, atName) }

// what describes the call without its place.
func (s *signature) what() string {
	text := s.arguments()
	if k := Kind(s[atKind]); k != Bytes {
		text += fmt.Sprintf(" (%v)", k)
	}
	if f := s.fold(); f != "" {
		text += " with " + f
	}
	if name := s.text(atName, atWhere); name != "" {
		text += " by " + name
	}
	return text
}

func (s *signature) String() string { return s.what() + " at " + s.text(atWhere, len(s)) }

// fits reports whether two calls fit each other. Bytes match all types, and functions without a name
// all operations.
func (s *signature) fits(o *signature) bool {
	mine, theirs := s.fold(), o.fold()
	return s.arguments() == o.arguments() && Kind(s[atKind]).Match(Kind(o[atKind])) &&
		(mine == theirs || mine == "" || theirs == "")
}

// differing finds two ranks whose calls do not match, if there are any, the same at all ranks. As a
// call without type or operation matches several others, it compares each with the first that has a
// type, and with the first that has an operation with a name.
func differing(all []signature) (a, b int, found bool) {
	one, typed, named := -1, -1, -1
	for rank := range all {
		s := &all[rank]
		if s[0] == 0 {
			continue
		}
		for _, first := range [...]int{one, typed, named} {
			if first >= 0 && !all[first].fits(s) {
				return first, rank, true
			}
		}
		if one < 0 {
			one = rank
		}
		if typed < 0 && Kind(s[atKind]) != Bytes {
			typed = rank
		}
		if named < 0 && s.fold() != "" {
			named = rank
		}
	}
	return 0, 0, false
}

// differ is the error of calls that differ. It names that of this rank if another does not fit that.
func differ(on *p2p.Comm, travelled []byte) error {
	all := make([]signature, on.Size())
	for rank := range all {
		copy(all[rank][:], travelled[rank*len(all[rank]):])
	}
	a, b, found := differing(all)
	if !found {
		return nil
	}
	mine := on.Rank()
	for rank := range all {
		if all[rank][0] != 0 && !all[rank].fits(&all[mine]) {
			a, b = rank, mine
			break
		}
	}
	return fmt.Errorf("%w: rank %d called %v, rank %d called %v: all ranks call the same in the same order",
		ft.ErrArgument, a, &all[a], b, &all[b])
}

// Compare compares a call with those of the other ranks.
func Compare(on *p2p.Comm, c Collective) *coll.Check {
	mine := signatureOf(c)
	return &coll.Check{Mine: mine[:], Differ: func(all []byte) error { return differ(on, all) }}
}

// Start is Compare of a call that does not block, and that is listed until its end.
func (l *Log) Start(on *p2p.Comm, c Collective) *coll.Check {
	check, number := Compare(on, c), l.Open(c.call(on))
	check.End = func(st p2p.Status, err error) (p2p.Status, error) {
		l.Close(number)
		return st, err
	}
	return check
}

// Lend is Start of a collective with buffers, of which it only reads in. It returns the buffers to
// work with in their place. The end of the operation copies the outcome, and is an error if the
// program has changed a lent buffer.
func (l *Log) Lend(on *p2p.Comm, c Collective, in, out []byte) (_, _ []byte, _ *coll.Check) {
	check, call := l.Start(on, c), c.call(on)
	lentIn, lentOut := lend(in, out)
	sumIn, sumOut, end := Sum(in), Sum(out), check.End
	check.End = func(st p2p.Status, err error) (p2p.Status, error) {
		if st, err = end(st, err); err != nil || st.Cancelled {
			return st, err
		}
		if err = cmp.Or(Unchanged(call, in, sumIn), Unchanged(call, out, sumOut)); err != nil && check.Wrap != nil {
			err = check.Wrap(err)
		}
		copy(out, lentOut)
		return st, err
	}
	return lentIn, lentOut, check
}

// Unchanged is the error of a buffer that has changed during an operation. Sum is its checksum
// before.
func Unchanged(c Call, buf []byte, sum uint64) error {
	if Sum(buf) == sum {
		return nil
	}
	return fmt.Errorf("called at %s: %w: the program changed the buffer while the operation was under way: "+
		"wait for it first", c.Where, ft.ErrArgument)
}

// closure matches the names that the compiler gives to functions without one, and to bound methods.
var closure = regexp.MustCompile(`\.(func|gowrap)?[0-9]+$|\.func[0-9]+\.|-fm$`)

// foldName names the function of a reduction: "" for none, and for a function literal.
func foldName(op any) string {
	v := reflect.ValueOf(op)
	if v.IsNil() {
		return ""
	}
	name := runtime.FuncForPC(v.Pointer()).Name()
	if closure.MatchString(name) {
		return ""
	}
	name = generic(name)
	return name[strings.LastIndex(name, "/")+1:]
}

// generic is the name of a function without its types.
func generic(name string) string {
	if i := strings.IndexByte(name, '['); i >= 0 {
		return name[:i]
	}
	return name
}

// elementOf is the type on which it works: that of its arguments, and bytes where these are slices.
func elementOf(op any) reflect.Kind {
	if k := reflect.TypeOf(op).In(0).Kind(); k != reflect.Slice {
		return k
	}
	return reflect.Uint8
}
