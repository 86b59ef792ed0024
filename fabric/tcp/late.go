package tcp

import (
	"context"
	"time"
)

// latePoll is the time between two looks at the interfaces.
const latePoll = 50 * time.Millisecond

// Late reports whether this machine has no interface yet that the networks allow: only loopback is
// up, or an interface or a network that they name is missing. A container's network often comes up
// after its first process.
func Late(networks []string) bool { return late(networks, Choose) }

func late(networks []string, choose func([]string) ([]Choice, error)) bool {
	if _, err := parseRules(networks); err != nil {
		return false // waiting does not help
	}
	choices, _ := choose(networks) // an error: a name fits nothing
	for _, c := range choices {
		if c.Used || !c.Addr.IsLoopback() {
			return false
		}
	}
	return true
}

// AwaitNetworks waits while [Late], at most for limit or until ctx ends. It is no error if no
// interface comes up in time: Open and the peers report the consequences.
func AwaitNetworks(ctx context.Context, networks []string, limit time.Duration) error {
	return awaitNetworks(ctx, networks, limit, Choose)
}

func awaitNetworks(ctx context.Context, networks []string, limit time.Duration,
	choose func([]string) ([]Choice, error)) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	look := time.NewTicker(latePoll)
	defer look.Stop()
	for late(networks, choose) {
		select {
		case <-look.C:
		case <-end.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
