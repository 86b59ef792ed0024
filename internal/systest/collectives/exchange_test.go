package collectives

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// exchanges are the collectives in which each rank has messages with many others.
var exchanges = []ranktest.CollectiveKind{ranktest.Alltoall}

// eachExchange checks each of them with several lengths, in place and not, typed and not, blocking and not.
func eachExchange(c *banyan.Comm) error {
	number := 0
	for _, kind := range exchanges {
		for _, size := range []int{0, 1, 3, 1000} {
			for variant := range 16 {
				o := ranktest.Collective{Kind: kind, Number: number<<2 | variant&3, Root: number % c.Size(), Size: size,
					Typed: variant&4 != 0}
				if err := o.Check(c, variant&8 != 0); err != nil {
					return err
				}
			}
			number++
		}
	}
	return nil
}

// They give the result of a sequential program for any number of ranks, on one node and on several, with
// and without a copy of the buffers.
func TestExchangesAgainstOracle(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 16} {
		for _, level := range []banyan.Uniformity{banyan.UniformNothing, banyan.UniformCollectives} {
			for _, s := range []banyan.Simulation{{}, {Configure: oneEach}} {
				require.NoError(t, banyan.Simulate(n, s, func(w *banyan.World) error {
					if err := w.Comm().SetUniformity(level); err != nil {
						return err
					}
					return eachExchange(w.Comm())
				}), "%d ranks, %v", n, level)
			}
		}
	}
}

// exchangesRank is a real process of the same.
func exchangesRank(w *banyan.World) error { return eachExchange(w.Comm()) }

func TestExchangesWithProcesses(t *testing.T) {
	for _, fabric := range []string{"shm", "tcp"} {
		for _, n := range []int{1, 2, 5, 9}[:ranktest.Scaled(4, 3)] {
			t.Run(fmt.Sprint(fabric, n), func(t *testing.T) { ranktest.Succeed(t, n, "exchanges", "BANYAN_FABRIC="+fabric) })
		}
	}
}
