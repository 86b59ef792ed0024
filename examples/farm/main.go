// Command farm gives out tasks to workers, one at a time, and goes on when
// workers die: the task of a dead worker is given to another. It is example 17.2 of the
// MPI Forum's chapter on process fault tolerance (draft of January 2014).
//
//	go build -o bin/ ./examples/farm && bin/ftbench run -n 4 -- bin/farm -kill
//
// kills the last worker in the middle of its work.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/banyan-hpc/banyan"
)

const (
	tagTask   = 1 // to a worker: a number, or -1 for the end
	tagResult = 2 // to the master: the number and its result
)

func main() {
	tasks := flag.Int("tasks", 1000, "tasks to be done")
	kill := flag.Bool("kill", false, "kill the last worker with SIGKILL as soon as it has a task")
	flag.Parse()
	banyan.Run(func(w *banyan.World) error {
		c := w.Comm()
		switch {
		case c.Size() < 2:
			return errors.New("farm: a master and at least one worker are needed: ftbench run -n 3 -- bin/farm")
		case c.Rank() == 0:
			return master(c, *tasks)
		}
		return worker(c, *kill && c.Rank() == c.Size()-1)
	})
}

// farm is what the master knows.
type farm struct {
	c     *banyan.Comm
	todo  []int64
	given map[int]int64 // by worker: the task that it has
	lost  int           // workers whose death has been seen to
	done  int
	sum   int64
}

// master takes answers from whoever has one. When a worker has died the receive tells
// so, but goes on: the master sees who it was, says that it knows, and waits again.
func master(c *banyan.Comm, tasks int) error {
	f := farm{c: c, given: make(map[int]int64)}
	for i := range tasks {
		f.todo = append(f.todo, int64(i))
	}
	for worker := 1; worker < c.Size(); worker++ {
		f.give(worker)
	}
	var answer [2]int64 // the number, its result
	next := banyan.Irecv(c, answer[:], banyan.AnySource, tagResult)
	for f.done < tasks {
		if len(f.given) == 0 {
			return fmt.Errorf("farm: no worker is left, %d of %d tasks are done", f.done, tasks)
		}
		st, err := next.Wait()
		switch {
		case errors.Is(err, banyan.ErrProcFailedPending): // somebody else may still answer
			if err := f.takeBack(); err != nil {
				return err
			}
			continue
		case errors.Is(err, banyan.ErrProcFailed): // it died within its answer
			if err := f.takeBack(); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			f.done++
			f.sum += answer[1]
			delete(f.given, st.Source)
			f.give(st.Source)
		}
		next = banyan.Irecv(c, answer[:], banyan.AnySource, tagResult)
	}
	next.Cancel()
	_, _ = next.Wait()
	for worker := 1; worker < c.Size(); worker++ {
		_ = banyan.Send(c, []int64{-1}, worker, tagTask) // the dead do not care
	}
	fmt.Printf("%d tasks done, sum of squares %d, workers lost: %d\n", f.done, f.sum, f.lost)
	n := int64(tasks)
	if want := n * (n - 1) * (2*n - 1) / 6; f.sum != want {
		return fmt.Errorf("farm: the sum should be %d", want)
	}
	return nil
}

// give sends a worker a task, if there is one. That it is dead need not be looked at
// here: the receive tells.
func (f *farm) give(worker int) {
	if len(f.todo) == 0 {
		return
	}
	f.given[worker], f.todo = f.todo[0], f.todo[1:]
	_ = banyan.Send(f.c, []int64{f.given[worker]}, worker, tagTask)
}

// takeBack returns the tasks of the workers that have died since the last time, and
// acknowledges their failure: those that were looked at, no others.
func (f *farm) takeBack() error {
	failed := f.c.FailedRanks()
	for _, rank := range failed[f.lost:] {
		if task, busy := f.given[rank]; busy {
			f.todo = append(f.todo, task)
			delete(f.given, rank)
		}
	}
	f.lost = len(failed)
	if _, err := f.c.AckFailed(f.lost); err != nil {
		return err
	}
	for worker := 1; worker < f.c.Size(); worker++ { // the idle take over
		if _, busy := f.given[worker]; !busy && !slices.Contains(failed, worker) {
			f.give(worker)
		}
	}
	return nil
}

func worker(c *banyan.Comm, dies bool) error {
	task := []int64{0}
	for {
		if _, err := banyan.Recv(c, task, 0, tagTask); err != nil {
			return err
		}
		if task[0] < 0 {
			return nil
		}
		if dies {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if err := banyan.Send(c, []int64{task[0], task[0] * task[0]}, 0, tagResult); err != nil {
			return err
		}
	}
}
