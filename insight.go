package banyan

import "github.com/banyan-hpc/banyan/internal/insight"

// Floods need to know where a rank listens; see package insight.
func init() {
	insight.Provide(func(world any, provider string) []byte {
		if w, ok := world.(*World); ok && !w.absent() {
			return w.job.Published(provider)
		}
		return nil
	})
}
