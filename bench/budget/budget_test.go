package budget

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
)

func TestWithoutBound(t *testing.T) {
	b := Start(0)
	require.False(t, b.Over())
	require.Empty(t, b.Export())
	require.Equal(t, time.Hour, b.Left(time.Hour))
	ctx, stop := b.Context(context.Background())
	require.NoError(t, ctx.Err())
	stop()
	require.False(t, Ended(ctx))
	over, err := b.Agree(nil) // exchanges nothing
	require.NoError(t, err)
	require.False(t, over)
}

// A process that is started for the measurement has the rest of it.
func TestShared(t *testing.T) {
	spent := Start(time.Nanosecond)
	require.Eventually(t, spent.Over, time.Minute, time.Millisecond)
	require.Zero(t, spent.Left(time.Hour))
	ctx, stop := spent.Context(context.Background())
	defer stop()
	<-ctx.Done()
	require.True(t, Ended(ctx))
	require.Len(t, spent.Export(), 1)
	name, value, _ := strings.Cut(spent.Export()[0], "=")
	t.Setenv(name, value)
	require.True(t, Start(time.Hour).Over())
	require.Equal(t, spent.Max(), Shared().Max())
	require.False(t, Start(0).Over())
}

// All ranks get the decision of the first.
func TestAgree(t *testing.T) {
	for _, spent := range []int{0, 1} { // the rank whose time is over
		require.NoError(t, banyan.Simulate(3, banyan.Simulation{}, func(w *banyan.World) error {
			b := Budget{time.Hour, time.Now().Add(time.Hour)}
			if w.Comm().Rank() == spent {
				b.until = time.Now()
			}
			over, err := b.Agree(w.Comm())
			require.Equal(t, spent == 0, over)
			return err
		}))
	}
	require.Equal(t, "cut by --max-time 2s: 3 of 40 rounds are done",
		Budget{max: 2 * time.Second}.Cut(3, 40, "rounds").Error())
}
