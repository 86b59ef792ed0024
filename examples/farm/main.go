// Command farm gives out tasks to workers, one at a time, and goes on when workers die: the task of a
// dead worker is given to another. It is example 17.2 of the MPI Forum's chapter on process fault
// tolerance (draft of January 2014). The flag -kill has the last worker die in the middle of its work.
//
//	go build -o bin/ ./examples/farm && bin/ftbench run -n 4 -- bin/farm -kill
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/banyan-hpc/banyan"
)

type answer struct{ task, square int }

func main() {
	tasks := flag.Int("tasks", 1000, "tasks to be done")
	kill := flag.Bool("kill", false, "kill the last worker with SIGKILL as soon as it has a task")
	flag.Parse()
	banyan.Run(func(w *banyan.World) error {
		c := w.Comm()
		if c.Rank() == 0 {
			return manage(c, *tasks)
		}
		return work(c, *kill && c.Rank() == c.Size()-1)
	})
}

func manage(c *banyan.Comm, tasks int) error {
	var todo, idle []int
	for i := range tasks {
		todo = append(todo, i)
	}
	for worker := 1; worker < c.Size(); worker++ {
		idle = append(idle, worker)
	}
	done, sum, lost, given := 0, 0, 0, map[int]int{} // by worker: its task
	for done < tasks {
		for len(idle) > 0 && len(todo) > 0 {
			_ = banyan.SendValue(c, todo[0], idle[0], 0) // if the worker is dead the receive reports it
			given[idle[0]], todo, idle = todo[0], todo[1:], idle[1:]
		}
		if len(given) == 0 {
			return fmt.Errorf("farm: no worker is left, %d of %d tasks are done: start more ranks", done, tasks)
		}
		got, st, err := banyan.RecvValue[answer](c, banyan.AnySource, 0)
		switch {
		case err == nil:
			done, sum, idle = done+1, sum+got.square, append(idle, st.Source)
			delete(given, st.Source)
		case !banyan.IsFailure(err):
			return err
		default: // each failed worker is reported until it is acknowledged
			failed := c.FailedRanks()
			for _, worker := range failed[lost:] {
				if task, busy := given[worker]; busy {
					todo = append(todo, task)
				}
				delete(given, worker)
				idle = slices.DeleteFunc(idle, func(w int) bool { return w == worker })
			}
			if lost, err = c.AckFailed(len(failed)); err != nil {
				return err
			}
		}
	}
	for worker := 1; worker < c.Size(); worker++ {
		_ = banyan.SendValue(c, -1, worker, 0) // the end; errors of dead workers do not matter
	}
	fmt.Printf("%d tasks done, sum of squares %d, workers lost: %d\n", done, sum, lost)
	return nil
}

func work(c *banyan.Comm, dies bool) error {
	for {
		task, _, err := banyan.RecvValue[int](c, 0, 0)
		if err != nil || task < 0 {
			return err
		}
		if dies {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if err := banyan.SendValue(c, answer{task, task * task}, 0, 0); err != nil {
			return err
		}
	}
}
