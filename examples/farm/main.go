// Command farm gives out tasks to workers, one at a time, and goes on when
// workers die: the task of a dead worker is given to another.
//
//	ftbench run -n 4 -- farm -kill
//
// kills the last worker in the middle of its work.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"syscall"

	"github.com/banyan-hpc/banyan"
)

const (
	tagTask   = 1 // to a worker: a number, or -1 for the end
	tagResult = 2 // to the master: the number and its result
)

func main() {
	tasks := flag.Int("tasks", 1000, "tasks to be done")
	kill := flag.Bool("kill", false, "kill the last worker with SIGKILL after ten tasks")
	flag.Parse()
	w, err := banyan.Init()
	if err != nil {
		log.Fatal(err)
	}
	c := w.Comm()
	switch {
	case c.Size() < 2:
		err = errors.New("farm: a master and at least one worker are needed: ftbench run -n 3 -- farm")
	case c.Rank() == 0:
		err = master(c, *tasks)
	default:
		err = worker(c, *kill && c.Rank() == c.Size()-1)
	}
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Finalize(); err != nil {
		log.Fatal(err)
	}
}

// hand is a worker, as the master sees it.
type hand struct {
	rank       int
	busy, dead bool
	task       int64
	answer     [2]int64 // the number, its result
}

// master keeps a receive posted for each busy worker. A worker that has died
// shows as an error of its receive, and of no other.
func master(c *banyan.Comm, tasks int) error {
	todo := make([]int64, tasks)
	for i := range todo {
		todo[i] = int64(i)
	}
	hands, results := make([]hand, c.Size()-1), make([]banyan.Request, c.Size()-1)
	for i := range hands {
		hands[i].rank = i + 1
	}
	var done, lost int
	var sum int64
	for done < tasks {
		for i := range hands {
			if h := &hands[i]; !h.busy && !h.dead && len(todo) > 0 {
				h.task, todo = todo[0], todo[1:]
				h.busy, results[i] = true, h.give(c)
			}
		}
		i, _, err := banyan.WaitAny(results)
		switch {
		case i < 0:
			return fmt.Errorf("farm: no worker is left, %d of %d tasks are done", done, tasks)
		case errors.Is(err, banyan.ErrProcFailed):
			lost++
			hands[i].dead = true
			todo = append(todo, hands[i].task) // for somebody else
		case err != nil:
			return err
		default:
			done++
			hands[i].busy = false
			sum += hands[i].answer[1]
		}
	}
	for i := range hands {
		_ = banyan.Send(c, []int64{-1}, i+1, tagTask) // the dead do not care
	}
	fmt.Printf("%d tasks done, sum of squares %d, workers lost: %d\n", done, sum, lost)
	n := int64(tasks)
	if want := n * (n - 1) * (2*n - 1) / 6; sum != want {
		return fmt.Errorf("farm: the sum should be %d", want)
	}
	return nil
}

// give sends a worker its task and begins to receive the answer. If the worker
// is dead both fail; the receive is the one that is looked at.
func (h *hand) give(c *banyan.Comm) banyan.Request {
	r := banyan.Irecv(c, h.answer[:], h.rank, tagResult)
	_ = banyan.Send(c, []int64{h.task}, h.rank, tagTask)
	return r
}

func worker(c *banyan.Comm, dies bool) error {
	task := []int64{0}
	for n := 0; ; n++ {
		if _, err := banyan.Recv(c, task, 0, tagTask); err != nil {
			return err
		}
		if task[0] < 0 {
			return nil
		}
		if dies && n == 10 {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if err := banyan.Send(c, []int64{task[0], task[0] * task[0]}, 0, tagResult); err != nil {
			return err
		}
	}
}
