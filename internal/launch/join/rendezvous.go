package join

import (
	"context"
	"fmt"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
)

// meet makes the Job of a rank that was started without launcher.
func meet(ctx context.Context, p place) (*Job, error) {
	conn, id, h, err := p.at.Connect(ctx, p.seed)
	if err != nil {
		return nil, err
	}
	limited, cancel := p.at.Limit(ctx)
	defer cancel()
	j, err := join1(limited, p, conn)
	if err == nil && id != "" && id != j.id {
		conn.Close()
		err = fmt.Errorf("launch: %w: rank 0 at %s has proved to be of another job than the one whose name came after that: somebody changes what is sent", pmi.ErrProtocol, p.at.Addr)
	}
	if err != nil {
		if h != nil {
			h.Close()
		}
		return nil, err
	}
	j.unled, j.host, j.nodes = true, h, p.at.Nodes
	return j, nil
}
