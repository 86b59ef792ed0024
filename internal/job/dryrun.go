package job

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
)

// dryRun takes the way from a death to the error of a receive, now and then while this process polls in vain. The way
// is long code that runs once in the life of most processes: without it half of the time from the sight of a death to
// the error is the time in which memory answers.
//
// It has engines of its own, with peers that do not exist, so nothing of the job can notice. Each run ends one peer.
type dryRun struct {
	host     fabric.Host
	progress *progress.Engine
	p2p      *p2p.Engine
	comm     *p2p.Comm
	last     proc.ID // the peer that has ended last
}

// dryPeers is the number of runs for which a pair of engines lasts: they take memory from the collector.
const dryPeers = 64

// startDryRun starts the dry runs of a process that polls on a core of its own, as a part of the detection of failures.
func (j *Job) startDryRun(cfg *progress.Config, c *config) error {
	if cfg.Shm == nil || c.Unaware || j.detector == nil || j.Progress.Crowded() {
		return nil
	}
	d := &dryRun{host: cfg.Host, last: dryPeers}
	j.Progress.OnLongWait(func() {
		_ = d.run()
		j.detector.DryRun()
	})
	return nil
}

// renew makes new engines, whose peers are alive.
func (d *dryRun) renew() (err error) {
	d.progress = progress.New(progress.Config{Host: d.host, Others: []fabric.Provider{new(dryFabric)}})
	d.p2p, d.last = p2p.New(d.progress, true, p2p.Limits{}), 0
	d.comm, err = d.p2p.NewComm("dry run", p2p.WorldGroup(dryPeers+1), 0, worldContext)
	return err
}

// run ends a peer for which a receive waits, and returns the error of the receive. Precondition: the lock of the job's
// engine is held, so that there is one run at a time.
func (d *dryRun) run() error {
	if d.last == dryPeers {
		if err := d.renew(); err != nil {
			return err
		}
	}
	d.last++
	r := p2p.Irecv[p2p.Aware](d.comm, nil, int(d.last), 0)
	d.progress.Lock()
	d.progress.Report(d.last, proc.Cause{Kind: proc.Signaled})
	d.progress.Unlock()
	_, _, err := d.p2p.Test(r)
	return err
}

// dryFabric connects to any peer, and reports the end of the last one that it was informed of.
type dryFabric struct {
	fabric.Provider // has no other methods
	peer            proc.ID
	cause           proc.Cause
	ended           bool
}

func (f *dryFabric) Lookup(peer proc.ID) fabric.Conn { return dryConn{peer: peer} }

func (f *dryFabric) Inform(peer proc.ID, cause proc.Cause) {
	f.peer, f.cause, f.ended = peer, cause, true
}

func (f *dryFabric) Poll(s *fabric.Sink) int {
	if !f.ended {
		return 0
	}
	f.ended = false
	s.Down(f.peer, f.cause)
	return 1
}

type dryConn struct {
	fabric.Conn // has no other methods
	peer        proc.ID
}

func (c dryConn) Peer() proc.ID   { return c.peer }
func (dryConn) Caps() fabric.Caps { return fabric.Caps{MaxFrame: 1 << 12, Eager: 1 << 12} }
func (dryConn) Invalidate()       {}
