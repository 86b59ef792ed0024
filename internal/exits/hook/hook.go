package hook

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/banyan-hpc/banyan/internal/exits"
)

// MaxLive bounds the processes that are registered and have not been forgotten.
const MaxLive = 2048

// ErrFull is in the error of [Hook.Register] when there are [MaxLive] processes.
var ErrFull = fmt.Errorf("%d processes are registered, and no more can be", MaxLive)

// bellSize has room for twice MaxLive words of 16 bytes.
const (
	bellSize = 2 * MaxLive * bellWord
	bellWord = 16
)

// name is what a process is called in its own pid namespace; zero if that could
// not be seen.
type name struct{ inner, space uint32 }

// Hook is a loaded program with its log. Its methods may be called concurrently,
// but Close only last.
type Hook struct {
	files                       []*os.File // log, bell, link
	log, bell, live             *ebpf.Map
	exitProgram, writingProgram *ebpf.Program
	link                        link.Link
	ring                        *ring
	space, depth                uint32 // the loader's pid namespace, and how deep it lies

	mu   sync.Mutex
	pids map[int]name // registered and not forgotten
}

// Open loads and attaches the programs.
func Open() (*Hook, error) { return open(false) }

// open with countThreads has the program look at the number of living threads, as on kernels whose tracepoint
// does not say whether the last one ends.
func open(countThreads bool) (_ *Hook, err error) {
	h := &Hook{pids: make(map[int]name)}
	defer func() {
		if err != nil {
			err = errors.Join(explained(err), h.Close())
		}
	}()
	if err := capable(); err != nil {
		return nil, err
	}
	k, err := readKernel()
	if err != nil {
		return nil, err
	}
	k.lastThreadTold = k.lastThreadTold && !countThreads
	if err := h.makeMaps(k.space); err != nil {
		return nil, err
	}
	if h.writingProgram, err = ebpf.NewProgram(writer(h)); err != nil {
		return nil, fmt.Errorf("load the program that registers: %w", err)
	}
	if k.level, err = h.level(k); err != nil {
		return nil, err
	}
	h.space, h.depth = k.space, k.level
	if h.exitProgram, err = ebpf.NewProgram(recorder(h, k)); err != nil {
		return nil, fmt.Errorf("load the program at sched_process_exit: %w", err)
	}
	if h.link, err = link.AttachTracing(link.TracingOptions{Program: h.exitProgram}); err != nil {
		return nil, fmt.Errorf("attach to sched_process_exit: %w", err)
	}
	return h, h.makeFiles()
}

func (h *Hook) makeMaps(space uint32) (err error) {
	h.log, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "banyan_exits", Type: ebpf.Array, KeySize: 4, ValueSize: exits.LogSize, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE,
	})
	if err != nil {
		return fmt.Errorf("make the log: %w", err)
	}
	first := make([]byte, exits.LogSize)
	binary.NativeEndian.PutUint64(first[exits.MagicAt:], exits.Magic)
	binary.NativeEndian.PutUint32(first[exits.SpaceAt:], space)
	if err := h.log.Put(uint32(0), first); err != nil {
		return fmt.Errorf("begin the log: %w", err)
	}
	if err := h.log.Freeze(); err != nil {
		return fmt.Errorf("freeze the log: %w", err)
	}
	if h.bell, err = ebpf.NewMap(&ebpf.MapSpec{Name: "banyan_bell", Type: ebpf.RingBuf, MaxEntries: bellSize}); err != nil {
		return fmt.Errorf("make the bell: %w", err)
	}
	if h.ring, err = mapRing(h.bell.FD()); err != nil {
		return err
	}
	h.live, err = ebpf.NewMap(&ebpf.MapSpec{Name: "banyan_live", Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: MaxLive})
	if err != nil {
		return fmt.Errorf("make the table of processes: %w", err)
	}
	return nil
}

func (h *Hook) makeFiles() error {
	raw, ok := h.link.(interface{ FD() int })
	if !ok {
		return fmt.Errorf("a link without descriptor: %T", h.link)
	}
	for _, f := range []struct {
		name string
		fd   int
	}{{"log", h.log.FD()}, {"bell", h.bell.FD()}, {"link", raw.FD()}} {
		fd, err := unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("copy the descriptor of the %s: %w", f.name, err)
		}
		h.files = append(h.files, os.NewFile(uintptr(fd), f.name))
	}
	return nil
}

// Files are the descriptors for readers: log, bell, link. They are the hook's:
// pass them on, do not close them.
func (h *Hook) Files() []*os.File { return h.files }

// Register has the end of a process recorded. The process must not be waited for
// before Forget. It may have ended: then Forget records it.
func (h *Hook) Register(pid int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.pids[pid]; ok {
		return nil
	}
	if len(h.pids) >= MaxLive {
		return fmt.Errorf("exits: register process %d: %w", pid, ErrFull)
	}
	inner, space := h.inside(pid)
	// First the entry: an end that came before it would be taken for an earlier one's.
	if err := h.write(pid, inner, space, exits.Begun); err != nil {
		return err
	}
	// What the exit's entry is to say too. With another name than this one's, that
	// entry would outlive the next use of the pid.
	if err := h.live.Put(uint32(pid), min(space, 1)); err != nil {
		return fmt.Errorf("exits: register process %d: %w", pid, err)
	}
	h.pids[pid] = name{inner, space}
	return nil
}

// Forget ends what Register began, once the process has ended and before its pid
// may come back. Nearly always its end has been recorded by then; if it ended
// while it was being registered, it is recorded now, without how.
func (h *Hook) Forget(pid int) error { return h.strike(pid, exits.Unknown) }

// Withdraw undoes Register for a process that has not ended.
func (h *Hook) Withdraw(pid int) error { return h.strike(pid, exits.Withdrawn) }

func (h *Hook) strike(pid int, status int32) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.pids[pid]
	if !ok {
		return nil
	}
	delete(h.pids, pid)
	switch err := h.live.Delete(uint32(pid)); {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("exits: forget process %d: %w", pid, err)
	}
	return h.write(pid, known.inner, known.space, status)
}

// Live is the number of processes that are registered and not forgotten.
func (h *Hook) Live() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pids)
}

// write appends to the log by the program. Preconditions: mu is held.
func (h *Hook) write(pid int, inner, space uint32, status int32) error {
	h.ring.makeRoom()
	_, err := h.writingProgram.Run(&ebpf.RunOptions{Context: request{uint32(pid), inner, space, status}})
	if err != nil {
		return fmt.Errorf("exits: write of process %d to the log: %w", pid, err)
	}
	return nil
}

// Close gives up what this process holds. Readers go on with what they have.
func (h *Hook) Close() error {
	var errs []error
	if h.ring != nil {
		errs = append(errs, h.ring.unmap())
	}
	for _, f := range h.files {
		errs = append(errs, f.Close())
	}
	if h.link != nil {
		errs = append(errs, h.link.Close())
	}
	errs = append(errs, h.exitProgram.Close(), h.writingProgram.Close(), h.live.Close(), h.bell.Close(), h.log.Close())
	return errors.Join(errs...)
}
