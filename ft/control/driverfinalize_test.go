package control

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/sim"
	"github.com/banyan-hpc/banyan/ft/detect"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
)

// Processes that depart in order, at their own times, are not reported, and the remaining ones are
// still observed.
func TestDepartures(t *testing.T) {
	for seed := range seeds(100) {
		r := rand.New(rand.NewPCG(seed, 5))
		n := 3 + r.IntN(10)
		x := detectorJob{n: n, seed: seed}
		for range n {
			x.leave = append(x.leave, 100*millisecond+fabric.Time(r.Int64N(int64(5*second))))
		}
		require.NoError(t, x.run(), "seed %d", seed)
		require.NoError(t, x.check(nil), "seed %d, %d processes", seed, n)
	}
}

// heardProvider makes connections that have received a frame.
type heardProvider struct{ fabric.Provider }

func (p heardProvider) Connect(spec fabric.ConnectSpec) (fabric.Conn, error) {
	c, err := p.Provider.Connect(spec)
	return heardConn{c}, err
}

type heardConn struct{ fabric.Conn }

func (heardConn) TryLend(fabric.Class, uint64, []byte) bool { return false }
func (heardConn) Received() uint64                          { return 1 }
func (heardConn) Lends() int                                { return 0 }
func (heardConn) Unsent() bool                              { return false }
func (heardConn) DetachBuffers()                            {}

// A process that cannot be connected to has failed, and the others are notified; once this process
// waits for the others to finalize it may as well have departed. One that it has heard has failed,
// unless only another process says so.
func TestMissingWhileFinalizing(t *testing.T) {
	for _, x := range []struct{ last, heard, reported, told bool }{
		{told: true},
		{last: true},
		{last: true, heard: true, told: true},
		{last: true, heard: true, reported: true},
	} {
		var told bool
		cfg := sim.DefaultConfig(3)
		s, err := sim.New(cfg)
		require.NoError(t, err)
		for id := range proc.ID(3) {
			require.NoError(t, s.Spawn(id, func(p *sim.Proc) {
				e := progress.New(progress.Config{
					Self: id, Host: p.Host(), Others: []fabric.Provider{heardProvider{p.Provider()}},
					Resolve: func(_ string, peer proc.ID) ([]byte, error) { return sim.Address(peer), nil },
				})
				driver := Start(Config{
					Engine: e, Detect: detect.Config{Self: id, Procs: 3, Period: DefaultPeriod,
						Timeout: DefaultTimeout},
					Die: func(error) { p.Die(proc.Cause{Kind: proc.Exited, Code: 71}) },
				})
				ep := &progress.Endpoint{Proc: 2}
				if x.heard && id == 0 {
					ep, err = e.Endpoint(2)
					require.NoError(t, err)
				}
				if x.last && id == 0 {
					driver.Finalizing()
				}
				var done progress.Completion
				e.Lock()
				if ep.Reported = x.reported; id == 0 {
					driver.onEnd(ep, proc.Cause{Kind: proc.Unknown})
				}
				e.After(second, done.Finish)
				e.Wait(&done)
				told = told || id == 1 && e.View().Failed(2)
				e.Unlock()
				driver.Stop()
				e.Depart()
				require.NoError(t, e.Close())
			}))
		}
		require.NoError(t, s.Run())
		require.Equal(t, x.told, told, "%+v", x)
	}
}

// If a process that waits for the others to finalize could not connect to a peer, that is no
// evidence of the peer's end: when the peer fails all are notified.
func TestFailureAfterMissedConnection(t *testing.T) {
	const n, leaver, victim = 16, 0, 3 // not neighbours
	var knew [n]bool
	s, err := sim.New(sim.DefaultConfig(n))
	require.NoError(t, err)
	for id := range proc.ID(n) {
		require.NoError(t, s.Spawn(id, func(p *sim.Proc) {
			e := progress.New(progress.Config{
				Self: id, Host: p.Host(), Others: []fabric.Provider{p.Provider()},
				Resolve: func(_ string, peer proc.ID) ([]byte, error) { return sim.Address(peer), nil },
			})
			driver := Start(Config{
				Engine: e, Detect: detect.Config{Self: id, Procs: n, Period: DefaultPeriod, Timeout: DefaultTimeout},
				Die: func(error) { p.Die(proc.Cause{Kind: proc.Exited, Code: 71}) },
			})
			var done progress.Completion
			if id == leaver {
				driver.Finalizing()
			}
			e.Lock()
			if id == leaver {
				driver.onEnd(&progress.Endpoint{Proc: victim}, proc.Cause{Kind: proc.Unknown})
			}
			e.After(6*second, done.Finish)
			e.Wait(&done)
			knew[id] = e.View().Failed(victim)
			e.Unlock()
			driver.Stop()
			e.Depart()
			require.NoError(t, e.Close())
		}))
	}
	require.NoError(t, s.Kill(victim, 2*second))
	require.NoError(t, s.Run())
	for id, knows := range knew {
		require.Equal(t, id != victim, knows, "process %d", id)
	}
}
