package banyan

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/internal/affinity"
	"github.com/banyan-hpc/banyan/launch"
	"github.com/banyan-hpc/banyan/proc"
	"github.com/banyan-hpc/banyan/progress"
	"github.com/banyan-hpc/banyan/settings"
)

// Init makes this process a rank of the job that started it, or a world of one
// if nobody did. Without launcher, RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
// say which rank of which job it is (see package launch). Thresholds and sizes of
// buffers that the options leave open come from the environment and the files
// that docs/tuning.md describes; what is wrong there is an error. It returns when all ranks have called it. A rank that is
// missing is named in the error (errors.As with *launch.MissingError).
func Init(opts ...Option) (*World, error) { return InitContext(context.Background(), opts...) }

// InitContext is Init that ends with the context. A process joins its job once:
// when it has been given up, it is not tried again.
func InitContext(ctx context.Context, opts ...Option) (*World, error) {
	o, err := gather(opts)
	if err != nil {
		return nil, fmt.Errorf("banyan: %w", err)
	}
	set, err := o.set(settings.Here())
	if err != nil {
		return nil, fmt.Errorf("banyan: %w", err)
	}
	o.tell(set)
	o.apply(set)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("banyan: the start was not begun: %w", err)
	}
	job, err := launch.Join(ctx)
	if err != nil {
		return nil, fmt.Errorf("banyan: %w", err)
	}
	w, err := start(ctx, launched{job}, &o, set)
	if err != nil {
		return nil, fmt.Errorf("banyan: rank %d: %w", job.Rank(), err)
	}
	return w, nil
}

func start(ctx context.Context, job launched, o *options, set *settings.Set) (*World, error) {
	cfg := o.shmConfig(set)
	cfg.Self, cfg.MaxProcs = proc.ID(job.Rank()), job.Size()
	p, err := shm.Open(cfg)
	if err != nil {
		return nil, err
	}
	shared, err := job.exchange(ctx, p.Address())
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	h := host.New(host.Config{
		Bell: p.Bell(), Shared: shared,
		Spins: unlessAuto(set.Int(settings.Spins)), Yields: unlessAuto(set.Int(settings.Yields)),
	})
	return newWorld(job, progress.Config{Host: h, Shm: p}, o)
}

// launched is the bootstrap by a launcher.
type launched struct{ *launch.Job }

// Abort implements bootstrap.
func (l launched) Abort(code int, why string) {
	fmt.Fprintln(os.Stderr, "banyan:", why)
	_ = l.Job.Abort(code, why) // who started this rank sees how it exits
	os.Exit(code)
}

const (
	// card is the key under which a rank publishes its address and its cores.
	card = "card"
	// crowd is the key under which the first rank of a node says whether its
	// ranks must share cores.
	crowd = "crowd"
)

// Address implements bootstrap.
func (l launched) Address(_ string, peer proc.ID) ([]byte, error) {
	addr, _, err := l.card(context.Background(), int(peer))
	return addr, err
}

func (l launched) card(ctx context.Context, rank int) (addr []byte, cores coreSet, err error) {
	b, err := l.Get(ctx, rank, card)
	if err != nil {
		return nil, nil, err
	}
	if len(b) < 2 || len(b) < 2+int(binary.LittleEndian.Uint16(b)) {
		return nil, nil, fmt.Errorf("rank %d published %d bytes that are no address: start all ranks from one build", rank, len(b))
	}
	n := 2 + int(binary.LittleEndian.Uint16(b))
	return b[2:n], coreSet(b[n:]), nil
}

// exchange publishes this rank's address and the cores it may run on, waits
// for the others, and reports whether the ranks of this node must share cores.
func (l launched) exchange(ctx context.Context, addr []byte) (shared bool, err error) {
	if l.Size() == 1 {
		return false, nil
	}
	cpus, err := affinity.Allowed()
	if err != nil {
		return false, err
	}
	b := binary.LittleEndian.AppendUint16(nil, uint16(len(addr)))
	b = append(append(b, addr...), newCoreSet(cpus)...)
	if err := l.Put(ctx, card, b); err != nil {
		return false, err
	}
	if err := l.Fence(ctx); err != nil {
		return false, err
	}
	return l.shared(ctx)
}

// shared reports whether the ranks of this node must share cores. The first of
// them finds out and tells the others: if each read the cards of all, a job's
// start would take quadratic time in the launcher.
func (l launched) shared(ctx context.Context) (bool, error) {
	local := l.Local()
	if local == nil { // the launcher does not say: one node
		for rank := range l.Size() {
			local = append(local, rank)
		}
	}
	first := local[0]
	var crowded bool
	var err error
	if l.Rank() == first {
		if crowded, err = l.crowded(ctx, local); err != nil {
			return false, err
		}
		if err := l.Put(ctx, crowd, strconv.AppendBool(nil, crowded)); err != nil {
			return false, err
		}
	}
	// That a rank has died meanwhile is for those to find out who need it.
	var missing *launch.MissingError
	if err := l.Fence(ctx); err != nil && !errors.As(err, &missing) {
		return false, err
	}
	if l.Rank() == first {
		return crowded, nil
	}
	said, err := l.Get(ctx, first, crowd)
	if errors.Is(err, launch.ErrNotFound) { // it died before it could say
		return l.crowded(ctx, local)
	}
	return string(said) == "true", err
}

// crowded compares the ranks of this node with the cores that they may run on
// between them, and with the quota of their control group. Bound ranks count
// right this way, whoever bound them.
func (l launched) crowded(ctx context.Context, local []int) (bool, error) {
	var all coreSet
	for _, rank := range local {
		_, cores, err := l.card(ctx, rank)
		if err != nil {
			return false, err
		}
		all = all.union(cores)
	}
	room := float64(all.count())
	if quota, limited := affinity.Quota(); limited {
		room = min(room, quota)
	}
	return float64(len(local)) > room, nil
}

// tolerable reports whether an error of the last fence is no concern of an
// application that finishes: ranks that died before they came, or a launcher
// that is gone.
func tolerable(err error) bool {
	var missing *launch.MissingError
	return errors.As(err, &missing) || errors.Is(err, launch.ErrLauncherGone)
}
