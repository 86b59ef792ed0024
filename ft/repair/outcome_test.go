package repair

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/ft/agree"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/p2p"
)

// outcome is a vote, a decision and the result that the member should get.
type outcome struct {
	err     error
	makes   bool
	d       agree.Decision
	want    []error // errors.Is
	not     []error
	text    string // part of the error's text
	revoked bool
	unnamed bool // no rank is named
}

func (c *outcome) check(t *testing.T, m *member, name string) {
	comm, err := m.p.NewComm("c", p2p.WorldGroup(3), 0, 70)
	assert.NoError(t, err)
	v := Vote{What: Dup, Err: c.err, Makes: c.makes}
	m.e.Lock()
	got := v.outcome(comm, &c.d)
	m.e.Unlock()
	if len(c.want) == 0 && c.text == "" {
		assert.NoError(t, got, name)
		return
	}
	for _, class := range c.want {
		assert.ErrorIs(t, got, class, name)
	}
	for _, class := range c.not {
		assert.NotErrorIs(t, got, class, name)
	}
	assert.ErrorContains(t, got, c.text, name)
	assert.Equal(t, c.revoked, comm.Revoked(), name)
	named, ok := errors.AsType[*ft.ProcFailedError](got)
	if ok {
		assert.Equal(t, []int{1}, named.Ranks, name)
	}
	if len(c.want) == 1 && c.want[0] == ft.ErrProcFailed {
		assert.Equal(t, !c.unnamed, ok, name)
	}
}

// The outcome of a decision for a member with or without an error of its own: the class is the same
// at all, failed members are named where they are known, and an own error of another class is
// added.
func TestOutcome(t *testing.T) {
	own := errors.New("own")
	value := func(errs ...error) []byte {
		all := byte(noError)
		for _, err := range errs {
			v := Vote{Err: err}
			all &= v.encode()[0]
		}
		return []byte{all}
	}
	failed := []agree.Ended{{Proc: 1}}
	left := []agree.Ended{{Proc: 1, Departed: true}}
	byFailure := fmt.Errorf("%w: %w", ft.ErrRevoked, ft.ErrProcFailed) // as an error range does
	for name, c := range map[string]outcome{
		"revoked by a failure": {d: agree.Decision{Value: value(byFailure), Ended: failed},
			want: []error{ft.ErrRevoked}, not: []error{ft.ErrProcFailed}},
		"all well":           {d: agree.Decision{Value: value()}},
		"an unknown failure": {d: agree.Decision{Value: value(), Ended: failed, Unacked: []proc.ID{1}}},
		"the same, making": {makes: true,
			d: agree.Decision{Value: value(), Ended: failed, Unacked: []proc.ID{1}}, want: []error{ft.ErrProcFailed}},
		"making, departed": {makes: true, d: agree.Decision{Value: value(), Ended: left, Unacked: []proc.ID{1}}},
		"failure elsewhere": {d: agree.Decision{Value: value(ft.ErrProcFailed), Ended: failed},
			want: []error{ft.ErrProcFailed}},
		"failure without rank": {d: agree.Decision{Value: value(ft.ErrProcFailed), Ended: left},
			want: []error{ft.ErrProcFailed}, unnamed: true, text: "as another rank has found"},
		"departure": {d: agree.Decision{Value: value(ft.ErrDeparted)}, want: []error{ft.ErrDeparted},
			not: []error{ft.ErrProcFailed}, text: "at some rank"},
		"argument": {d: agree.Decision{Value: value(ft.ErrArgument)}, want: []error{ft.ErrArgument}},
		"the first class": {d: agree.Decision{Value: value(ft.ErrArgument, ft.ErrRevoked)},
			want: []error{ft.ErrRevoked}, not: []error{ft.ErrArgument}},
		"another error": {d: agree.Decision{Value: value(own)}, text: "and so at all"},
		"own, and another": {err: own, d: agree.Decision{Value: value(own, ft.ErrRevoked)},
			want: []error{ft.ErrRevoked, own}},
		"own, the same": {err: own, d: agree.Decision{Value: value(own)}, want: []error{own}},
		"own of that class": {err: ft.ErrArgument, d: agree.Decision{Value: value(ft.ErrArgument)},
			want: []error{ft.ErrArgument}, text: ft.ErrArgument.Error()},
		"own failure, named": {err: ft.ErrProcFailed,
			d: agree.Decision{Value: value(ft.ErrProcFailed), Ended: failed}, want: []error{ft.ErrProcFailed}},
		"mismatch": {d: agree.Decision{Mismatch: true}, want: []error{ft.ErrArgument},
			text: "same operation"},
		"mismatch after death": {d: agree.Decision{Mismatch: true, Ended: failed}, want: []error{ft.ErrProcFailed}},
		"mismatch, departed":   {d: agree.Decision{Mismatch: true, Ended: left}, want: []error{ft.ErrArgument}},
		"refused": {d: agree.Decision{Mismatch: true, Refused: true, Ended: failed},
			want: []error{ft.ErrRevoked}, not: []error{ft.ErrProcFailed}, revoked: true},
	} {
		job(t, 1, func(m *member) { c.check(t, m, name) })
	}
}
