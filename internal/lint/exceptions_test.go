package lint

import (
	"fmt"
	"strings"
)

// exception lets one file or package break one rule. With about, it covers only
// findings whose message contains that text.
type exception struct {
	rule, path, about string
	reason            string
}

// exceptions is the whole list. It is meant to stay short.
var exceptions = []exception{
	{"decoders", "internal/job/routes.go", "routeOf decodes", "it reads what the providers of this process say of themselves"},
	{"decoders", "internal/launch/hosts/proxy.go", "prepare decodes", "it sets variables that internal/launch/hosts.FuzzJob has read; what is no pair has an empty value"},
	{"decoders", "internal/launch/rendezvous/address.go", "decodes", "it takes apart what FromEnvironment has put together, which internal/launch/rendezvous.FuzzEnvironment reads"},
	{"decoders", "ft/repair/call.go", "decided decodes", "it reads a decision as long as its own proposal, which ft/control.FuzzAgree asserts"},
	{"decoders", "ft/repair/validate.go", "validate decodes", "the same"},
}

func (e exception) covers(f finding) bool {
	return e.rule == f.rule && e.path == f.path && strings.Contains(f.msg, e.about)
}

// except removes the excepted findings, and reports exceptions without a
// reason and unused ones.
func except(found []finding, list []exception) []finding {
	var left []finding
	needed := make([]bool, len(list))
	for _, f := range found {
		covered := false
		for i, e := range list {
			if e.covers(f) {
				covered, needed[i] = true, true
			}
		}
		if !covered {
			left = append(left, f)
		}
	}
	for i, e := range list {
		if e.reason == "" {
			left = append(left, finding{rule: "exceptions", path: e.path, msg: fmt.Sprintf("the exception from %q gives no reason", e.rule)})
		}
		if !needed[i] {
			left = append(left, finding{rule: "exceptions", path: e.path, msg: fmt.Sprintf("nothing needs the exception from %q any more", e.rule)})
		}
	}
	return left
}
