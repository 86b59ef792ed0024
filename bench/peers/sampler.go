package peers

import (
	"context"
	"time"
)

// Runner takes samples: a [Server] or [UCX].
type Runner interface {
	// Run does one job and returns how long its iterations took.
	Run(ctx context.Context, j Job) (time.Duration, error)
}

// Sampler repeats one job so that each sample takes about Target.
type Sampler struct {
	Runner Runner
	// Job is the job to run; the Sampler sets its Iters and Warmup.
	Job    Job
	Target time.Duration
}

const (
	// firstIters is where the search for the number of iterations begins, firstBytes the most that they move: a device that
	// is made of software may have a few megabytes a second.
	firstIters, firstBytes = 16, 16 << 20
	maxIters               = 1 << 28
)

// Sample does the job once and returns seconds per message. The first call finds the number of
// iterations; later ones adapt it when the machine has become much faster or slower, for the
// samples that follow.
func (s *Sampler) Sample(ctx context.Context) (float64, error) {
	if s.Job.Iters == 0 {
		s.iterate(min(firstIters, firstBytes/max(1, s.Job.Size*s.Job.Window)))
		for {
			d, err := s.Runner.Run(ctx, s.Job)
			if err != nil {
				return 0, err
			}
			if !s.adapt(d) {
				break
			}
		}
	}
	j := s.Job
	d, err := s.Runner.Run(ctx, j)
	if err != nil {
		return 0, err
	}
	s.adapt(d)
	return d.Seconds() / j.Messages(), nil
}

// adapt changes the number of iterations when d is off the target by more than a factor of two, and
// reports whether it did.
func (s *Sampler) adapt(d time.Duration) bool {
	factor := float64(s.Target) / float64(max(1, d))
	if factor > 0.5 && factor < 2 {
		return false
	}
	before := s.Job.Iters
	s.iterate(int(float64(before) * min(factor, 50)))
	return s.Job.Iters != before
}

// iterate sets the number of iterations within its limits. The warm-up is a tenth, and at least one: the first
// messages make connections.
func (s *Sampler) iterate(n int) {
	s.Job.Iters = min(max(1, n), maxIters)
	s.Job.Warmup = max(1, s.Job.Iters/10)
}
