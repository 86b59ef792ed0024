package many

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/bench/stats"
)

// The limits of the options.
const (
	MaxRanks   = 1024
	MaxSize    = 1 << 20
	MaxRepeats = 10_000
)

// Options of a job.
type Options struct {
	// Sizes of the messages, in bytes; the first is that of the first contact.
	Sizes []int `json:"sizes"`
	// Repeats is how many all-to-alls of a size follow the second one.
	Repeats int `json:"repeats"`
}

// Check reports the first invalid option, and the valid values.
func (o *Options) Check() error {
	if len(o.Sizes) == 0 {
		return fmt.Errorf("many: no size of a message is given")
	}
	for _, size := range o.Sizes {
		if size < 1 || size > MaxSize {
			return fmt.Errorf("many: messages of %d bytes: 1 to %d are possible", size, MaxSize)
		}
	}
	if o.Repeats < 1 || o.Repeats > MaxRepeats {
		return fmt.Errorf("many: %d repetitions: 1 to %d are possible", o.Repeats, MaxRepeats)
	}
	return nil
}

// Times are those of one size, in seconds.
type Times struct {
	Size   int     `json:"bytes"`
	First  float64 `json:"first_seconds"`
	Second float64 `json:"second_seconds"`
	Steady float64 `json:"steady_seconds"` // the median of the further ones
}

// Sample is the result of one job.
type Sample struct {
	Ranks int     `json:"ranks"`
	Times []Times `json:"times"`
	// Processor is the processor time of all ranks in the first contact over the number of directed pairs.
	Processor float64 `json:"processor_seconds_per_pair"`
	// Shared is the shared memory of the node in bytes: after the messages, and of [Measure] the growth.
	Shared float64 `json:"shared_bytes"`
	// Resident memory of rank 0 in bytes: before the first message, after the first contact, and the peak.
	Before float64 `json:"resident_before_bytes"`
	After  float64 `json:"resident_after_bytes"`
	Peak   float64 `json:"resident_peak_bytes"`
}

// Run measures. All ranks of w call it with the same options, before any other message; rank 0 gets the sample.
//
// Errors: options that make no sense, less than two ranks, a message that failed or has another sender's content.
func Run(w *banyan.World, o Options) (*Sample, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	s := &Sample{Ranks: w.Comm().Size(), Before: kilobytes(statusFile, "VmRSS")}
	if s.Ranks < 2 {
		return nil, fmt.Errorf("many: %d rank: at least 2 are needed", s.Ranks)
	}
	for i, size := range o.Sizes {
		e, err := newExchange(w, size)
		if err == nil {
			err = errors.Join(e.sample(s, o.Repeats, i == 0), e.free())
		}
		if err != nil {
			return nil, fmt.Errorf("many: messages of %d bytes: %w", size, err)
		}
	}
	s.Shared, s.Peak = Shared(), kilobytes(statusFile, "VmHWM")
	if err := w.Comm().Barrier(); err != nil || w.Comm().Rank() != 0 {
		return nil, err
	}
	return s, nil
}

// exchange is the all-to-all of a size at this rank.
type exchange struct {
	w       *banyan.World
	size    int
	memory  []byte // of out and in, from the kernel
	out, in []byte
	reqs    []banyan.Request
}

func newExchange(w *banyan.World, size int) (*exchange, error) {
	n, rank := w.Comm().Size(), w.Comm().Rank()
	b := n * size
	memory, err := unix.Mmap(-1, 0, 2*b, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	e := &exchange{w, size, memory, memory[:b], memory[b:], make([]banyan.Request, 0, 2*n)}
	// The first write to memory takes time. One buffer after the other, as in many.c: pages of both in turn cost the
	// kernel more when messages touch them.
	fill(e.out, byte(rank))
	fill(e.in, 1)
	return e, nil
}

func fill(b []byte, value byte) {
	for i := range b {
		b[i] = value
	}
}

func (e *exchange) free() error { return unix.Munmap(e.memory) }

// sample adds the times of a size, and after the first contact its costs.
func (e *exchange) sample(s *Sample, repeats int, contact bool) error {
	c := e.w.Comm()
	took, longest := make([]float64, 2+repeats), make([]float64, 2+repeats)
	var used, all [1]float64
	for i := range took {
		if err := c.Barrier(); err != nil {
			return err
		}
		before := processor()
		start := e.w.Now()
		if err := e.once(); err != nil {
			return err
		}
		took[i] = (e.w.Now() - start).Seconds()
		if i == 0 {
			used[0] = (processor() - before).Seconds()
		}
		if contact && i == 0 {
			s.After = kilobytes(statusFile, "VmRSS")
		}
		if err := e.check(); err != nil {
			return err
		}
	}
	if err := banyan.Reduce(c, took, longest, banyan.Max, 0); err != nil {
		return err
	}
	if err := banyan.Reduce(c, used[:], all[:], banyan.Sum, 0); err != nil {
		return err
	}
	if contact {
		s.Processor = all[0] / float64(s.Ranks*(s.Ranks-1))
	}
	s.Times = append(s.Times, Times{e.size, longest[0], longest[1], stats.Median(longest[2:])})
	return nil
}

// once sends to each other rank, and receives from each.
func (e *exchange) once() error {
	c, size := e.w.Comm(), e.size
	n, rank := c.Size(), c.Rank()
	reqs := e.reqs
	for i := 1; i < n; i++ {
		from := (rank - i + n) % n
		reqs = append(reqs, c.Irecv(e.in[from*size:][:size], from, 0))
	}
	for i := 1; i < n; i++ {
		to := (rank + i) % n
		reqs = append(reqs, c.Isend(e.out[to*size:][:size], to, 0))
	}
	return banyan.WaitAll(reqs)
}

// check compares each message with its sender, and spoils it for the next time.
func (e *exchange) check() error {
	for from := range e.w.Comm().Size() {
		first := &e.in[from*e.size]
		if from != e.w.Comm().Rank() && *first != byte(from) {
			return fmt.Errorf("the message from rank %d has the content of rank %d", from, *first)
		}
		*first = ^byte(from)
	}
	return nil
}

// processor is the processor time of this process.
func processor() time.Duration {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) != nil {
		return 0 // it cannot fail for this process
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

const statusFile = "/proc/self/status"

// Shared is the shared memory of the node now, in bytes.
func Shared() float64 { return kilobytes("/proc/meminfo", "Shmem") }

// kilobytes reads a line "NAME: 123 kB" of a file of the kernel, in bytes; 0 where there is none.
func kilobytes(file, name string) float64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	return parseKilobytes(string(text), name)
}
