package banyan

import (
	"context"
	"errors"
	"fmt"

	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
)

// Finalize ends this process's membership. It returns when what was sent has
// been handed over and every rank that is alive has called it, so that nobody
// takes the departure for a failure. A rank that lives and has taken nothing for ten seconds of what was agreed on
// or revoked is given up, with a warning. Requests that have not been waited for
// are lost. Calling it again does nothing, and returns what the first call has.
//
// First the attributes of all communicators are deleted that have not been freed;
// the one that came to have attributes last is the first. Everything that is begun
// on a communicator afterwards is ErrClosed.
//
// Called by a deferred function while a panic unwinds the stack it does nothing but return an error: the panic goes on to
// end the process, with its text and trace, and the others find that this rank has failed. Who recovers from the panic
// calls Finalize after the function that was deferred has returned. The same holds for runtime.Goexit where the job
// has more than one rank.
func (w *World) Finalize() error {
	if err := w.mayFinalize(); err != nil {
		return err
	}
	w.once.Do(func() {
		w.final = errors.New("finalize: a panic has ended it")
		w.final = w.finalize()
	})
	return w.final
}

func (w *World) finalize() error {
	w.ended.Store(true)
	lost := w.detach()
	w.p2p.Flush()
	w.p2p.StopCollectives()
	if w.pulse != nil {
		w.pulse.Finalizing()
	}
	err := w.fence()
	w.flush()
	w.close()
	if w.pulse != nil {
		w.pulse.Stop()
	}
	w.progress.Depart()
	err = errors.Join(lost, err, w.progress.Close(), closeEnds(w.ends), w.job.Finalize(context.Background()))
	w.tally()
	return err
}

// detach deletes the attributes. A delete function that panics ends the operations of this rank, which then does not
// depart: whatever becomes of the panic, nobody is to wait for what does not come.
func (w *World) detach() error {
	done := false
	defer func() {
		if !done {
			w.close()
		}
	}()
	lost := w.holders.close()
	done = true
	return lost
}

// close ends all operations of this rank with ErrClosed.
func (w *World) close() {
	w.p2p.Close()
	w.control.stop(w.progress)
}

// fence waits for the others and makes progress meanwhile: they may still wait
// for us.
//
// A launcher that does not spare the dead (Hydra, Slurm) never ends a fence without them. So
// whoever knows of a death leaves that fence for an agreement, which ends when all who live
// have come, and tells all others, who may know
// nothing: those wait for such a notice beside the fence. The receive of the
// notice also ends when a death becomes known. Who has come out of the launcher's fence has seen all
// others in it; the agreement ends without it when it departs.
func (w *World) fence() error {
	e := w.p2p
	if w.job.SparesDead() {
		_, err := w.fenceOr(p2p.Handle{})
		return err
	}
	h := p2p.Irecv[p2p.Aware](w.notice, nil, p2p.AnySource, 0)
	ended, err := w.fenceOr(h)
	e.Cancel(h)
	_, _ = e.Wait(h)
	if ended {
		return err
	}
	if w.progress.View().Epoch() > 0 {
		for rank := range w.job.Size() {
			if rank != w.job.Rank() { // an error: it has left, or died
				p2p.Isend[p2p.Aware](w.notice, nil, rank, 0)
			}
		}
	}
	return w.meetLiving()
}

// meetLiving waits until all ranks that live have called it.
func (w *World) meetLiving() error {
	p := w.progress
	p.Lock()
	defer p.Unlock()
	var done progress.Completion
	var err error
	w.repair.Leave(w.notice, func(e error) {
		err = e
		done.Finish()
	})
	p.Wait(&done)
	if err != nil {
		return fmt.Errorf("finalize: %w", err)
	}
	return nil
}

// fenceOr waits for the fence, or for a request, and says whether the fence has ended; the zero Handle is none.
func (w *World) fenceOr(h p2p.Handle) (ended bool, err error) {
	e, p := w.p2p, w.progress
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
		err = w.job.Fence(ctx)
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
