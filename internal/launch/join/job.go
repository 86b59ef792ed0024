package join

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/rendezvous"
)

// Job is this process's place in its job. All methods may be called
// concurrently; those that talk to the launcher take their turn.
type Job struct {
	id         string
	rank, size int
	nodes      pmi.Mapping        // empty: unknown
	pmi        *client            // nil: alone
	unled      bool               // no launcher: rank 0 serves in its place
	host       *rendezvous.Server // what serves, in rank 0 of such a job
	seed       *rendezvous.Secret // nil: no file has the job's secret

	// turn holds one token. Its holder owns pmi's requests, closed, values and secret. It is taken
	// after the one of fence, by who needs both.
	turn   chan struct{}
	fence  chan struct{} // the same, for being in a fence
	closed bool
	values map[string][]byte           // what this rank has published; under a launcher the keys alone
	secret *[rendezvous.SecretLen]byte // nil: not asked for yet. Behind a pointer, so that printing a Job does not show it
}

// joined is set by the first Join that is not alone: the launcher's descriptor
// is the process's, and after Finalize its number may mean something else; a
// rank that has met the others cannot come a second time.
var joined atomic.Bool

// Join finds out who this process is from its environment and, under a
// launcher, opens the connection to it. It waits for the launcher, at most as
// long as a start-up may take ([InitTimeoutEnv]; then the error names PMI_FD and is a
// context.DeadlineExceeded), but for no other rank. Without launcher but with RANK and WORLD_SIZE, it waits for
// rank 0 at most as long as a start-up may take; if that does not answer, the
// error is a [*MissingError]. Other errors are of class [ErrEnvironment] when
// variables contradict each other or cannot be used, the file of [SecretFileEnv]
// included (it names the variable and the cure), [ErrRefused] when rank 0 wants no such rank, [ErrProtocol] or
// [ErrLauncherGone].
//
// A process joins once in its life. Under a launcher, Join also
// takes notice of SIGPIPE for the rest of the process's life: by default a Go
// program dies of writing to a broken standard output, and with the launcher
// dies the pipe that carries the output. Such a write then fails with EPIPE.
// A program that calls signal.Reset for SIGPIPE undoes this. The same is done
// with SIGUSR1 under other launchers than Banyan's: Hydra tells the ranks of a
// death by it, which would end them.
func Join(ctx context.Context) (*Job, error) {
	p, ok, err := findPlace(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	if !ok {
		return alone(), nil
	}
	if !joined.CompareAndSwap(false, true) {
		return nil, errors.New("launch: a process joins its launcher once, and this one has done so")
	}
	if p.seed, err = rendezvous.ReadSecret(os.Getenv(rendezvous.SecretFileEnv)); err != nil {
		return nil, err
	}
	if p.at != nil {
		return meet(ctx, p)
	}
	limit, err := pmi.ParseInitTimeout(os.Getenv(pmi.InitTimeoutEnv))
	if err != nil {
		return nil, err
	}
	f, err := openPMI(p.fd)
	if err != nil {
		return nil, err
	}
	// Notify, not Ignore: an ignored signal would stay ignored in the programs
	// that this one starts. Nobody reads the channel, and none need to.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("nothing has answered on PMI_FD=%d within %v (%s): is the launcher stopped, or the descriptor somebody else's? Unset PMI_FD, PMI_RANK and PMI_SIZE to run alone: %w",
		p.fd, limit, pmi.InitTimeoutEnv, context.DeadlineExceeded))
	defer cancel()
	j, err := join1(ctx, p, f)
	if err == nil && !j.SparesDead() {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1)
	}
	return j, err
}

// join1 makes a Job from a PMI-1 connection, which it owns.
func join1(ctx context.Context, p place, conn pmi.Conn) (*Job, error) {
	c, err := newClient(ctx, conn)
	if err != nil {
		return nil, err
	}
	j := &Job{
		id: c.kvs, rank: p.rank, size: p.size, pmi: c, seed: p.seed,
		turn: make(chan struct{}, 1), fence: make(chan struct{}, 1), values: make(map[string][]byte),
	}
	if c.mapping != "" {
		if j.nodes, err = pmi.ParseMapping(c.mapping); err != nil {
			_ = c.shut()
			return nil, c.nonsense(err)
		}
	}
	return j, nil
}

func alone() *Job {
	return &Job{
		id: pmi.NewID(), size: 1, nodes: pmi.Nodes(1, 1),
		turn: make(chan struct{}, 1), fence: make(chan struct{}, 1), values: make(map[string][]byte),
	}
}

// Rank is this process's position in the job, 0 … Size-1.
func (j *Job) Rank() int { return j.rank }

// Size is the number of processes that the job was started with.
func (j *Job) Size() int { return j.size }

// ID names the job: the same for all its ranks, different from other jobs of
// this launcher. It is not a secret.
func (j *Job) ID() string { return j.id }

// Alone reports whether this is a world of one that nobody has started.
func (j *Job) Alone() bool { return j.pmi == nil }

// Node returns a number for the machine on which a rank runs, equal for ranks
// that share one, and whether the launcher has said so.
func (j *Job) Node(rank int) (int, bool) {
	if len(j.nodes) == 0 || rank < 0 || rank >= j.size {
		return 0, false
	}
	return j.nodes.NodeOf(rank), true
}

// Local returns the ranks that share this rank's node, itself included,
// ascending; nil when the launcher has not said.
func (j *Job) Local() []int {
	here, ok := j.Node(j.rank)
	if !ok {
		return nil
	}
	var ranks []int
	for r := range j.size {
		if j.nodes.NodeOf(r) == here {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// begin takes the turn to talk to the launcher. The caller calls end.
func (j *Job) begin(ctx context.Context, what string) error {
	if err := await(ctx, j.turn, what); err != nil {
		return err
	}
	if j.closed {
		j.end()
		return fmt.Errorf("launch: %s: %w", what, pmi.ErrClosed)
	}
	return nil
}

func (j *Job) end() { <-j.turn }

// beginFence takes the turn and the place in the fence. The caller calls end and endFence.
func (j *Job) beginFence(ctx context.Context, what string) error {
	if err := await(ctx, j.fence, what); err != nil {
		return err
	}
	err := j.begin(ctx, what)
	if err != nil {
		j.endFence()
	}
	return err
}

func (j *Job) endFence() { <-j.fence }

// await takes a token.
func await(ctx context.Context, token chan struct{}, what string) error {
	select {
	case token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("launch: %s: %w", what, context.Cause(ctx))
	}
}

// Put publishes a value of at most [MaxValue] bytes under a key of at most
// [MaxKey] letters, digits, dots and underscores. Peers see it after the next
// [Job.Fence]. A key is put once: a second time is an error of class
// [ErrRefused].
//
// When ctx ends before the launcher has answered, this and all later calls but
// [Job.Abort] fail: the answer may still come, and would be taken for another's.
// The same holds for Get and Fence; after a Fence, Finalize works too.
func (j *Job) Put(ctx context.Context, key string, value []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if len(value) > MaxValue {
		return fmt.Errorf("launch: the value of %s has %d bytes, at most %d are allowed", key, len(value), MaxValue)
	}
	if err := j.begin(ctx, "put"); err != nil {
		return err
	}
	defer j.end()
	return j.publish(ctx, key, value)
}

// publish is Put with the turn.
func (j *Job) publish(ctx context.Context, key string, value []byte) error {
	// Launchers differ in what a second put of a key does, so it is refused here.
	if _, ok := j.values[key]; ok {
		return fmt.Errorf("launch: put: %w: %s has been put before", pmi.ErrRefused, key)
	}
	if j.pmi == nil {
		j.values[key] = slices.Clone(value)
		return nil
	}
	j.values[key] = nil
	for i, piece := range split(value, j.pmi.room()) {
		if err := j.pmi.put(ctx, wireKey(j.rank, key, i), piece); err != nil {
			return err
		}
	}
	return nil
}

// Get returns what rank peer has published under key, or an error of class
// [ErrNotFound].
func (j *Job) Get(ctx context.Context, peer int, key string) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if peer < 0 || peer >= j.size {
		return nil, fmt.Errorf("launch: get %s: there is no rank %d in a job of %d", key, peer, j.size)
	}
	if err := j.begin(ctx, "get"); err != nil {
		return nil, err
	}
	defer j.end()
	return j.lookup(ctx, peer, key)
}

// lookup is Get with the turn.
func (j *Job) lookup(ctx context.Context, peer int, key string) ([]byte, error) {
	if j.pmi == nil {
		value, ok := j.values[key]
		if !ok {
			return nil, fmt.Errorf("launch: get %s of rank 0: %w", key, pmi.ErrNotFound)
		}
		return slices.Clone(value), nil
	}
	value, err := join(func(i int) (string, error) { return j.pmi.get(ctx, wireKey(peer, key, i)) })
	if err != nil {
		return nil, fmt.Errorf("launch: get %s of rank %d: %w", key, peer, err)
	}
	return value, nil
}

// SparesDead reports whether [Job.Fence] completes without ranks that have died.
// It does where Banyan launched the job, or nobody did; Hydra and Slurm wait for
// the dead.
//
// The same launchers answer a Put and a Get while this rank is in a Fence. PMI-1 does not ask that
// of a launcher: under Hydra and Slurm such a call waits until the Fence has ended.
func (j *Job) SparesDead() bool {
	return j.pmi == nil || j.unled || strings.HasPrefix(j.id, pmi.IDPrefix)
}

// Fence waits until every rank of the job has called it as often as this one;
// then every value put before is visible to all. The error is a
// [*MissingError] when the barrier completed without some ranks: at start-up
// because they did not come, later because they have died.
func (j *Job) Fence(ctx context.Context) error {
	if err := j.beginFence(ctx, "fence"); err != nil {
		return err
	}
	defer j.endFence()
	if j.pmi == nil {
		j.end()
		return nil
	}
	round, err := j.pmi.enter(ctx)
	if j.SparesDead() {
		j.end()
	} else {
		defer j.end()
	}
	if err != nil {
		return err
	}
	return j.pmi.leaveBarrier(ctx, round)
}

// Finalize announces the orderly end of this rank to the launcher and closes
// the connection, also when it returns an error. A launcher that is gone is
// none. It waits for no other rank. A second call is an error of class
// [ErrClosed].
func (j *Job) Finalize(ctx context.Context) error {
	if err := j.beginFence(ctx, "finalize"); err != nil {
		return err
	}
	defer j.endFence()
	defer j.end()
	j.closed = true
	if j.pmi == nil {
		return nil
	}
	err := j.pmi.close(ctx)
	if j.host != nil {
		j.host.Close()
	}
	return err
}

// Abort asks the launcher to end all processes of the job and to report code.
// It does not wait for it and does not end this process: the caller does. msg
// is for people; only its first 200 bytes are sent. A lone process has nobody
// to end, and Abort does nothing. Without launcher nobody can end the others,
// and the error is of class [ErrRefused].
func (j *Job) Abort(code int, msg string) error {
	if j.pmi == nil {
		return nil
	}
	if j.unled {
		return fmt.Errorf("launch: abort: %w: the ranks were started without launcher; exit with a code other than 0, for whoever started them to see", pmi.ErrRefused)
	}
	return j.pmi.abort(code, msg)
}
