// Command farm distributes tasks to workers, one at a time. When a worker dies, another one gets its task
// (example 17.2 of the MPI Forum's chapter on process fault tolerance, draft of January 2014). With -kill
// the last worker dies in the middle of its work.
//
//	go build -o bin/ ./examples/farm && bin/ftbench run -n 4 -- bin/farm -kill
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"

	"github.com/banyan-hpc/banyan"
)

func main() {
	tasks := flag.Int("tasks", 1000, "tasks to be done")
	kill := flag.Bool("kill", false, "kill the last worker with SIGKILL as soon as it has a task")
	flag.Parse()
	banyan.Run(func(w *banyan.World) error {
		if c := w.Comm(); c.Rank() > 0 {
			return work(c, *kill && c.Rank() == c.Size()-1)
		}
		return manage(w.Comm(), *tasks)
	})
}

func manage(c *banyan.Comm, tasks int) error {
	todo, idle := rand.Perm(tasks), []int{} // tasks and workers
	for worker := 1; worker < c.Size(); worker++ {
		idle = append(idle, worker)
	}
	done, sum, lost, given := 0, 0, 0, map[int]int{} // by worker: its task
	for done < tasks {
		for ; len(idle) > 0 && len(todo) > 0; idle = idle[1:] {
			if banyan.SendValue(c, todo[0], idle[0], 0) == nil { // otherwise the worker is dead
				given[idle[0]], todo = todo[0], todo[1:]
			}
		}
		if len(given) == 0 {
			return fmt.Errorf("farm: no worker is left, %d of %d tasks are done: start more ranks", done, tasks)
		}
		square, st, err := banyan.RecvValue[int](c, banyan.AnySource, 0)
		if _, busy := given[st.Source]; err == nil && busy { // otherwise its death was known: the task is in todo
			done, sum, idle = done+1, sum+square, append(idle, st.Source)
			delete(given, st.Source)
		}
		if banyan.IsFailure(err) {
			failed := c.FailedRanks()
			for _, worker := range failed[lost:] {
				if task, busy := given[worker]; busy {
					todo = append(todo, task)
				}
				delete(given, worker)
			}
			lost, err = c.AckFailed(len(failed)) // otherwise each receive reports them
		}
		if err != nil {
			return err
		}
	}
	for worker := 1; worker < c.Size(); worker++ {
		_ = banyan.SendValue(c, -1, worker, 0) // the worker ends; errors of dead workers do not matter
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
		if err := banyan.SendValue(c, task*task, 0, 0); err != nil {
			return err
		}
	}
}
