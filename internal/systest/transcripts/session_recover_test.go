package transcripts

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// recovery has the verbs of agree, shrink and revoke:
//
//	rank 0: agree flag 5 -> flag 4 proc-failed [2]
//	rank 0: iagree flag 5 as a       # to be waited for as a
//	rank 0: flag a -> flag 4
//	rank 0: shrink as s -> left [0 1]
//	rank 0: ishrink as r             # to be waited for as r
//	rank 0: left r as s -> left [0 1]
//	rank 0: revoke on c
//	rank 0: revoked on c -> yes
func (s *session) recovery(verb, name string, c *banyan.Comm, a words) string {
	told := func(what string, err error) string {
		if err != nil {
			return what + " " + failure(err)
		}
		return what
	}
	switch flag := uint64(a.number("flag", 0)); verb {
	case "agree":
		all, err := c.Agree(flag)
		return told(fmt.Sprintf("flag %d", all), err)
	case "iagree":
		s.flags[a["as"]] = c.Iagree(flag)
		s.reqs[a["as"]] = &started{Request: s.flags[a["as"]].Request()}
	case "flag":
		return fmt.Sprintf("flag %d", s.flags[name].Value())
	case "shrink":
		left, err := c.Shrink()
		if err != nil {
			return failure(err)
		}
		return s.left(left, a["as"])
	case "ishrink":
		s.shrunk[a["as"]] = c.Ishrink()
		s.reqs[a["as"]] = &started{Request: s.shrunk[a["as"]].Request()}
	case "left":
		return s.left(s.shrunk[name].Value(), a["as"])
	case "revoke":
		if err := c.Revoke(); err != nil {
			return failure(err)
		}
	case "revoked":
		if !c.IsRevoked() {
			return "no"
		}
		return "yes"
	}
	return "ok"
}

// left names a shrunken communicator and returns its members' ranks in the world.
func (s *session) left(c *banyan.Comm, name string) string {
	s.comms[name] = c
	ranks := ranktest.RanksIn(c.Group(), s.w.Comm())
	if !slices.IsSorted(ranks) || ranks[c.Rank()] != s.w.Comm().Rank() {
		return fmt.Sprintf("rank %d of %v", c.Rank(), ranks)
	}
	return fmt.Sprintf("left %v", ranks)
}

// acknowledge has the verbs for known failures.
func (s *session) acknowledge(verb, name string, c *banyan.Comm) string {
	ranks := func(g banyan.Group) string { return fmt.Sprint(ranktest.RanksIn(g, c)) }
	var err error
	switch verb {
	case "failed":
		return ranks(c.GetFailed())
	case "acked":
		return ranks(c.FailureGetAcked())
	case "ack":
		var n int
		if n, err = strconv.Atoi(name); err != nil {
			return err.Error()
		}
		if n, err = c.AckFailed(n); err == nil {
			return strconv.Itoa(n)
		}
	case "reenable":
		var g banyan.Group
		if g, err = c.ReenableAnySource(); err == nil {
			return ranks(g)
		}
	case "profile":
		err = c.SetProfile(map[string]banyan.Profile{"rts": banyan.RTS, "ulfm": banyan.ULFM}[name])
	default:
		err = c.FailureAck()
	}
	if err != nil {
		return failure(err)
	}
	return "ok"
}

// validate has the verbs of run-through stabilization's repair. agreed returns the result of a
// non-blocking validate.
func (s *session) validate(verb, name string, c *banyan.Comm, a words) string {
	switch verb {
	case "validate":
		g, err := c.Validate()
		if err != nil {
			return failure(err)
		}
		return fmt.Sprint(ranktest.RanksIn(g, c))
	case "ivalidate":
		s.agreed[a["as"]] = c.Ivalidate()
		s.reqs[a["as"]] = &started{Request: s.agreed[a["as"]].Request()}
		return "ok"
	}
	return fmt.Sprint(ranktest.RanksIn(s.agreed[name].Value(), c))
}
