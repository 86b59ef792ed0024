package spawn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/internal/nodemem"
)

// Spawner starts ranks of a job on this machine, from one thread that lives as long as the job: the
// kernel's PDEATHSIG acts when the forking thread ends. A rank inherits this thread's affinity with
// its first instruction, so it holds for every thread that the rank will ever have.
type Spawner struct {
	ID        string // of the job
	N         int    // ranks of the job
	Argv      []string
	Dir       string
	Env       []string
	Bind      Bind
	OnFailure Policy
	OpenExits OpenExits
	Stdin     io.Reader // of rank 0

	// The ranks that this process itself starts, and the first one's position in the order of CPUs.
	First, Count, FirstCPU int

	OnStart  func(*Process)
	Finished chan struct{} // closed when all ranks have ended

	path  string // set by Check
	cpus  []int  // BindCore: the CPUs of ranks, in turn; set by Check
	exits Exits  // or nil
	// node is memory that all ranks map, which spares them to map each other's; nil: they do.
	node *os.File
}

// Run starts the ranks in order and sends the result to started. It returns when the job is over,
// and its thread ends with it.
func (s *Spawner) Run(started chan<- error) {
	runtime.LockOSThread() // never unlocked: its affinity has changed
	started <- s.startAll()
	<-s.Finished
	if s.exits != nil {
		_ = s.exits.Close() // all ranks have ended: no rank misses it
	}
}

func (s *Spawner) startAll() (err error) {
	if s.OpenExits != nil {
		if s.exits, err = s.OpenExits(); err != nil {
			return err
		}
	}
	if s.Count > 1 {
		s.node, _ = nodemem.Make(s.Count, s.N)
	}
	if s.node != nil {
		defer s.node.Close()
	}
	for i := range s.Count {
		rank := s.First + i
		if s.Bind == BindCore {
			if err := affinity.Pin(s.cpus[(s.FirstCPU+i)%len(s.cpus)]); err != nil {
				return fmt.Errorf("launch: bind rank %d: %w", rank, err)
			}
		}
		p, err := s.start(rank)
		if err != nil {
			return fmt.Errorf("launch: start rank %d: %w", rank, Explain(err))
		}
		if s.exits != nil {
			_ = s.exits.Register(p.PID()) // an unregistered rank detects that, and watches its peers by other means
		}
		offer(p.PID())
		s.OnStart(p)
	}
	return nil
}

// offered is how much sooner than the launcher a rank is killed where memory runs out, in
// thousandths of the available memory.
const offered = 300

// offer has the kernel kill a rank and not the launcher where their control group or the machine
// runs out of memory: the other ranks survive the one, but a job needs its launcher to report and
// end it. Where the file cannot be written nothing changes.
func offer(pid int) {
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if n, ok := offeredOf(string(own)); err == nil && ok {
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(strconv.Itoa(n)), 0)
	}
}

// offeredOf is a rank's oom_score_adj by that of the launcher.
func offeredOf(own string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(own))
	return min(n+offered, 1000), err == nil && n >= -1000 && n <= 1000
}

// Explain adds the cure to an error of a start that lacks a resource.
func Explain(err error) error {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: each rank needs 4 descriptors, raise the limit (ulimit -n)", err)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("%w: raise the limit on processes (ulimit -u, or pids.max of the control group)", err)
	}
	return err
}
