package detection

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/netns"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// otherNetwork has rank 0 take the last host's IPv4 address away, and goes on for longer than detect.timeout.
func otherNetwork(w *banyan.World) error {
	c := w.Comm()
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	start, left := w.Now(), 20
	for round := 0; left > 0; round++ {
		if c.Rank() == 0 {
			if round == 20 {
				fmt.Println("take")
			}
			if w.Now()-start > 8*time.Second {
				left--
			}
		}
		last := []byte{byte(left)} // rank 0 says when it is over
		if err := banyan.Bcast(c, last, 0); err != nil {
			return err
		}
		left = int(last[0])
		if _, err := c.Sendrecv(ranktest.Pattern(round, 50_000), next, 0, make([]byte, 50_000), before, 0); err != nil {
			return err
		}
		w.Sleep(time.Millisecond)
	}
	if end := c.Size() - 1; c.Rank() == 0 && w.PeerCounters(end).Healed == 0 {
		return errors.New("the connection to the last rank was not made again")
	}
	return nil
}

// A host that has lost one of its networks is reached over the other one, long before the kernel gives the connection up.
func TestLostNetwork(t *testing.T) {
	t.Parallel() // it waits most of the time
	if !ranktest.Namespaces(t) {
		return
	}
	res, out := ranktest.OnHosts(t, netns.Config{Hosts: 3, IPv6: true}, "other network", func(net *netns.Net, _ string) error {
		return net.RemoveAddr(2)
	}, "BANYAN_DETECT_PERIOD=100ms", "BANYAN_DETECT_TIMEOUT=5s", "BANYAN_VERBOSE=1")
	for _, e := range res.Ends {
		require.False(t, e.Failed(), "%v\n%s", e, out)
	}
}
