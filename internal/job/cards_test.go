package job

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/nodemem"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// counted is a launcher that has no values, and counts the questions.
type counted struct {
	launcher
	rank, asked int
}

func (c *counted) Rank() int { return c.rank }
func (c *counted) Size() int { return 3 }

func (c *counted) Put(context.Context, string, []byte) error { return nil }
func (c *counted) Fence(context.Context) error               { return nil }

func (c *counted) Get(context.Context, int, string) ([]byte, error) {
	c.asked++
	return nil, join.ErrNotFound
}

// ranksOfNode starts three ranks in this process, of which the last has not got the memory of the node.
func ranksOfNode(t *testing.T) (all [3]*launched, launchers [3]*counted) {
	f, err := nodemem.Make(3, 3)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	for i := range all {
		cfg := shm.Config{Self: proc.ID(i), MaxProcs: 3}
		if i < 2 {
			fd, err := unix.Dup(int(f.Fd()))
			require.NoError(t, err)
			cfg.Node = nodemem.At(fd, int64(i), 3*(nodemem.Head(3)+nodemem.Pages(3)), 3)
		}
		p, err := shm.Open(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		launchers[i] = &counted{rank: i}
		all[i] = &launched{launcher: launchers[i], key: firstCard, memory: p}
		all[i].self = route.Card{
			Node: route.Node{Name: "node", UID: uint32(os.Getuid())}, Allowed: route.All,
			Addresses: []route.Address{{Provider: "shm", Blob: p.Address()}},
		}
	}
	return all, launchers
}

// A rank finds the cards of its node without the launcher, those of the present edition.
func TestCardsOfTheNode(t *testing.T) {
	ctx := t.Context()
	all, launchers := ranksOfNode(t)
	for _, l := range all {
		require.NoError(t, l.publish(ctx))
	}
	addr, err := all[0].Address("shm", 1)
	require.NoError(t, err)
	require.Equal(t, all[1].self.Addresses[0].Blob, addr)
	c, err := all[0].fetch(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, all[1].self.Node, c.Node)
	require.Zero(t, launchers[0].asked)
	_, err = all[0].card(2)
	require.ErrorIs(t, err, fabric.ErrPeerGone, "it has the memory of no node, and the launcher has no card")
	require.Equal(t, 1, launchers[0].asked)
	_, err = all[2].card(0)
	require.ErrorIs(t, err, fabric.ErrPeerGone)
	require.Equal(t, 1, launchers[2].asked)
}

// A rank that has died before it had all its addresses has no card, as its first one does not count.
func TestFullCardsOfTheNode(t *testing.T) {
	ctx := t.Context()
	all, launchers := ranksOfNode(t)
	require.NoError(t, all[0].publish(ctx))
	require.NoError(t, all[1].publish(ctx))
	all[0].self.Addresses = append(all[0].self.Addresses, route.Address{Provider: "tcp", Blob: []byte("sockets")})
	require.NoError(t, all[0].complete(ctx))
	_, err := all[0].card(1)
	require.ErrorIs(t, err, fabric.ErrPeerGone)
	require.Equal(t, 1, launchers[0].asked)
	require.NoError(t, all[1].complete(ctx))
	c, err := all[1].card(0)
	require.NoError(t, err)
	require.Equal(t, "sockets", string(c.Address("tcp")))
	_, err = all[0].card(1)
	require.NoError(t, err)
	require.Equal(t, 1, launchers[0].asked)
}
