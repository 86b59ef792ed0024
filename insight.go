package banyan

import "github.com/banyan-hpc/banyan/internal/insight"

// Floods need to know where a rank listens; see package insight.
func init() {
	insight.Provide(func(world any, provider string) []byte {
		w, ok := world.(*World)
		if !ok {
			return nil
		}
		l, ok := w.job.(*launched)
		if !ok {
			return nil
		}
		return l.self.Address(provider)
	})
}
