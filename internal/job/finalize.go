package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
)

// Finalize ends this rank's membership. It first calls detach, while the rank can still communicate,
// and returns when all sent frames have been handed over and every living rank has called it. It
// calls report last. A second call returns the result of the first. Called while a panic or
// runtime.Goexit unwinds the stack, or by detach, it returns an error and does nothing.
func (j *Job) Finalize(detach func() error, report func()) error {
	if err := j.mayFinalize(); err != nil {
		return err
	}
	j.once.Do(func() {
		j.final = errors.New("finalize: a panic has ended it")
		j.final = j.finalize(detach)
		j.boot.Closing()
		j.quit.stop()
		report()
	})
	return j.final
}

func (j *Job) finalize(detach func() error) error {
	j.finalizing.Store(true)
	lost := j.detach(detach)
	lost = errors.Join(lost, j.P2P.ReturnLoans())
	j.P2P.Flush()
	j.P2P.StopCollectives()
	if j.detector != nil {
		j.detector.Finalizing()
	}
	err := j.fence()
	j.flush()
	j.close()
	if j.detector != nil {
		j.detector.Stop()
	}
	j.Progress.Depart()
	return errors.Join(lost, err, j.Progress.Close(), closeExits(j.exits), j.boot.Finalize(context.Background()))
}

// detach calls fn. If fn panics the operations of this rank end, and it does not depart: no other
// rank may wait for messages that never come, even if the panic is recovered.
func (j *Job) detach(fn func() error) error {
	done := false
	defer func() {
		if !done {
			j.close()
		}
	}()
	lost := fn()
	done = true
	return lost
}

// close ends all operations of this rank with ErrClosed.
func (j *Job) close() {
	j.Windows.Close()
	j.P2P.Close()
	j.stopControl()
}

// flushPatience is how long a departing rank waits for a living one that takes nothing.
const flushPatience = fabric.Time(10 * time.Second)

// flush hands over decisions and revocations for which other ranks wait.
func (j *Job) flush() {
	j.Progress.Lock()
	left := j.outbox.Flush(flushPatience)
	j.Progress.Unlock()
	for _, id := range left {
		j.boot.Warn(fmt.Sprintf("rank %d has finalized although rank %d has taken nothing for %v: "+
			"agreements and revocations may not have reached it; it is stopped, or makes no progress: "+
			"use WithAsyncProgress or a failure detector", j.Rank(), id, time.Duration(flushPatience)))
	}
}

// fence waits until all living ranks finalize, and makes progress meanwhile. Banyan's launchers end it without the
// ranks that have ended and, after a while, without those that count as failed (bootstrap.Lose).
//
// Other launchers (Hydra, Slurm) never end a fence without failed ranks. So, when a rank detects a failure, it
// leaves the fence for an agreement, which ends when all living ranks take part, and notifies the others, which may
// not have detected the failure: each waits for such a notice beside the fence. The receive of the notice also ends
// when a failure becomes known. A rank that has left the launcher's fence has seen all others in it; the agreement
// ends without it when it departs.
func (j *Job) fence() error {
	e := j.P2P
	if j.boot.SparesDead() {
		_, err := j.fenceOr(p2p.Handle{})
		return err
	}
	h := p2p.Irecv[p2p.Aware](j.notice, nil, p2p.AnySource, 0)
	ended, err := j.fenceOr(h)
	e.Cancel(h)
	_, _ = e.Wait(h)
	if ended {
		return err
	}
	if j.Progress.View().Epoch() > 0 {
		for rank := range j.Size() {
			if rank != j.Rank() { // an error: it has left, or died
				p2p.Isend[p2p.Aware](j.notice, nil, rank, 0)
			}
		}
	}
	return j.meetLiving()
}

// meetLiving waits until all living ranks have called it.
func (j *Job) meetLiving() error {
	p := j.Progress
	p.Lock()
	defer p.Unlock()
	var done progress.Completion
	var err error
	j.Repair.Leave(j.notice, func(e error) {
		err = e
		done.Finish()
	})
	p.Wait(&done)
	if err != nil {
		return fmt.Errorf("finalize: %w", err)
	}
	return nil
}

// fenceOr waits for the fence or for a request, and reports whether the fence has ended. The zero
// Handle is no request.
func (j *Job) fenceOr(h p2p.Handle) (ended bool, err error) {
	e, p := j.P2P, j.Progress
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var done progress.Completion
	p.Lock()
	defer p.Unlock()
	if !h.Empty() && e.State(h) != p2p.Pending {
		return false, nil
	}
	watch := e.NewWatch()
	interrupt := watch.Interrupter()
	p.Host().Go(func() {
		err = j.boot.Fence(ctx)
		p.Lock()
		done.Finish()
		p.Kick()
		p.Unlock()
		interrupt()
	})
	if !h.Empty() {
		watch.Add(h)
	}
	watch.Wait()
	watch.Drop(h)
	watch.Free()
	if !done.Done() {
		cancel()
		p.Wait(&done)
		return false, nil
	}
	if err != nil && !tolerable(err) {
		return true, fmt.Errorf("finalize: %w", err)
	}
	return true, nil
}

// tolerable reports whether an error of the last fence does not concern an application that
// finishes: ranks that died before they came, or the end of the launcher.
func tolerable(err error) bool {
	_, missing := errors.AsType[*join.MissingError](err)
	return missing || errors.Is(err, join.ErrLauncherGone)
}
