package startup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/launch"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// farewell is one job: by its seed, the same in all ranks and in the test.
type farewell struct {
	n      int
	fabric string
	doomed map[int]time.Duration // from a rank's last words before Finalize to its death
	random *rand.Rand
}

func newFarewell(seed uint64) *farewell {
	r := rand.New(rand.NewPCG(seed, 7))
	f := &farewell{n: 2 + r.IntN(4), doomed: map[int]time.Duration{}, random: r}
	if r.IntN(4) == 0 {
		f.n = 6 + r.IntN(11)
	}
	f.fabric = []string{"shm", "tcp"}[r.IntN(2)]
	for _, rank := range r.Perm(f.n)[:1+r.IntN(f.n-1)] {
		f.doomed[rank] = time.Duration(r.IntN(400*f.n)) * time.Microsecond
	}
	return f
}

// leave sends what nobody waits for, and finalizes. A doomed rank dies meanwhile.
func leave(w *banyan.World) error {
	seed, err := ranktest.JobSeed()
	if err != nil {
		return err
	}
	f, c := newFarewell(seed), w.Comm()
	sizes := []int{0, 8, 4000, 100_000}
	for range f.n {
		src, dst, size := f.random.IntN(f.n), f.random.IntN(f.n), sizes[f.random.IntN(len(sizes))]
		switch c.Rank() {
		case src:
			c.Isend(make([]byte, size), dst, 1)
		case dst:
			c.Irecv(make([]byte, size), src, 1)
		}
	}
	if delay, doomed := f.doomed[c.Rank()]; doomed {
		time.AfterFunc(delay, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }) // cannot fail
	}
	return w.Finalize()
}

// S1-12: whoever dies before, in and after Finalize, the others' Finalize ends well.
func TestFinalizeAmongDeaths(t *testing.T) {
	first, runs, killed := uint64(time.Now().UnixNano()), ranktest.Scaled(40, 8), 0
	if seed, err := strconv.ParseUint(os.Getenv("BANYAN_SEED"), 10, 64); err == nil {
		first, runs = seed, 1
	}
	for seed := first; seed < first+uint64(runs) || killed == 0 && runs > 1 && seed < first+uint64(10*runs); seed++ {
		killed += part(t, seed)
	}
	t.Logf("%d runs, %d ranks killed", runs, killed)
	require.True(t, killed > 0 || runs == 1, "nobody was killed")
}

// part runs the job of a seed and says how many ranks were killed in time.
func part(t *testing.T, seed uint64) (killed int) {
	f := newFarewell(seed)
	exe, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	stacks := time.AfterFunc(time.Minute, func() { signals <- syscall.SIGQUIT })
	end := time.AfterFunc(time.Minute+5*time.Second, func() { cancel(errors.New("ranks hang")) })
	defer stacks.Stop()
	defer end.Stop()
	var errs bytes.Buffer
	res, err := launch.Run(ctx, launch.Spec{
		N: f.n, Argv: []string{exe}, Stdout: io.Discard, Stderr: &errs, OnFailure: launch.Continue, Signals: signals,
		Env: append(os.Environ(), ranktest.RoleEnv+"=leave", fmt.Sprintf("%s=%d", ranktest.SeedEnv, seed), "BANYAN_FABRIC="+f.fabric),
	})
	story := fmt.Sprintf("BANYAN_SEED=%d runs it again: %d ranks, %s, doomed %v\n%s", seed, f.n, f.fabric, f.doomed, errs.String())
	require.NoError(t, err, "%s", story)
	for rank, end := range res.Ends {
		if _, doomed := f.doomed[rank]; doomed && end.Signal == syscall.SIGKILL {
			killed++
			continue
		}
		require.False(t, end.Failed(), "rank %d %v\n%s", rank, end, story)
	}
	return killed
}
