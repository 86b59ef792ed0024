// Command pingpong bounces a message between two ranks and prints the one-way
// time.
package main

import (
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan"
)

const (
	rounds = 100_000
	tag    = 1
)

func main() {
	banyan.Run(func(w *banyan.World) error { return play(w.Comm()) }) // after an error the other rank learns that this one failed
}

func play(c *banyan.Comm) error {
	if c.Size() != 2 {
		return fmt.Errorf("pingpong: %d ranks, start it with ftbench run -n 2", c.Size())
	}
	buf := make([]byte, 8)
	peer := 1 - c.Rank()
	start := time.Now()
	for range rounds {
		if c.Rank() == 0 {
			if err := c.Send(buf, peer, tag); err != nil {
				return err
			}
		}
		if _, err := c.Recv(buf, peer, tag); err != nil {
			return err
		}
		if c.Rank() == 1 {
			if err := c.Send(buf, peer, tag); err != nil {
				return err
			}
		}
	}
	if c.Rank() == 0 {
		fmt.Printf("8 bytes, one way: %v\n", time.Since(start)/(2*rounds))
	}
	return nil
}
