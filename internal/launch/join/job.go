package join

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/rendezvous"
)

// Job is this process's place in its job. All methods may be called concurrently; those that call
// the launcher are serialized.
type Job struct {
	id         string
	rank, size int
	nodes      pmi.Mapping        // empty: unknown
	pmi        *client            // nil: alone
	launched   bool               // by a launcher; false: rank 0 serves in its place, or alone
	server     *rendezvous.Server // in rank 0 of a job without a launcher
	seed       *rendezvous.Secret // nil: no file has the job's secret

	// turn holds one token. Its holder owns pmi's requests, closed, values and secret. A call that
	// needs both tokens takes fence first.
	turn   chan struct{}
	fence  chan struct{} // the same, for being in a fence
	closed bool
	values map[string][]byte // the values that this rank has published; under a launcher only the keys
	secret *[SecretLen]byte  // nil: not asked for yet. A pointer, so that printing a Job does not show it
	ranges bool              // the launcher answers requests for many values; needs the turn
}

// Rank is this process's position in the job, 0 … Size-1.
func (j *Job) Rank() int { return j.rank }

// Size is the number of processes that the job was started with.
func (j *Job) Size() int { return j.size }

// ID names the job: the same for all its ranks, different from other jobs of this launcher. It is
// not a secret.
func (j *Job) ID() string { return j.id }

// Alone reports whether this is a world of one, started by no launcher.
func (j *Job) Alone() bool { return j.pmi == nil }

// Node returns a number for the machine on which a rank runs, equal for ranks that share one. It
// reports false if the number is unknown.
func (j *Job) Node(rank int) (int, bool) {
	if len(j.nodes) == 0 || rank < 0 || rank >= j.size {
		return 0, false
	}
	return j.nodes.NodeOf(rank), true
}

// Local returns the ranks that share this rank's node, itself included, ascending; nil if they are
// unknown.
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

// beginFence takes both tokens. The caller calls end and endFence.
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

// Put publishes a value of at most [MaxValue] bytes under a key of at most [MaxKey] letters,
// digits, dots and underscores. Peers see it after the next [Job.Fence]. A second Put of a key is
// an error of class [ErrRefused].
//
// When ctx ends before the launcher has answered, this and all later calls but [Job.Abort] fail:
// the late answer would be taken for another's. The same holds for Get and Fence; after a Fence,
// Finalize works too.
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
	// The effect of a second put of a key depends on the launcher, so it is refused here.
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

// Get returns the value that rank peer has published under key, or an error of class [ErrNotFound].
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

// GetRange returns the values under key of count ranks from first on, or of fewer, as many as fit one
// reply; nil for a rank without value, or with one that takes more than one piece: Get returns it.
// It is for many values at once, and returns none with a launcher that is not Banyan's. The error is
// of class [ErrRefused] if there are no such ranks.
func (j *Job) GetRange(ctx context.Context, first, count int, key string) ([][]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if j.pmi == nil || !j.SparesDead() {
		return nil, nil
	}
	if err := j.begin(ctx, "get"); err != nil {
		return nil, err
	}
	defer j.end()
	if !j.ranges {
		_, err := j.pmi.get(ctx, pmi.RangeKey) // an older launcher would end the job for the request
		if errors.Is(err, pmi.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		j.ranges = true
	}
	pieces, err := j.pmi.getRange(ctx, strings.TrimSuffix(wireKey(0, key, 0), "0"), first, count)
	if err != nil {
		return nil, fmt.Errorf("launch: get %s of ranks from %d: %w", key, first, err)
	}
	values := make([][]byte, len(pieces))
	for i, piece := range pieces {
		if strings.HasPrefix(piece, singlePiece) {
			if values[i], err = join(func(int) (string, error) { return piece, nil }); err != nil {
				return nil, fmt.Errorf("launch: get %s of rank %d: %w", key, first+i, err)
			}
		}
	}
	return values, nil
}

// SparesDead reports whether [Job.Fence] completes without failed ranks. It does under Banyan's
// launcher and without one; Hydra and Slurm wait for dead ranks.
//
// The same launchers answer a Put and a Get while this rank is in a Fence. PMI-1 does not require
// that: under Hydra and Slurm such a call waits until the Fence has ended.
func (j *Job) SparesDead() bool {
	return !j.launched || strings.HasPrefix(j.id, pmi.IDPrefix)
}

// Fence waits until every rank of the job has called it as often as this one; then every value put
// before is visible to all. The error is a [*MissingError] when the barrier completed without some
// ranks: at start-up because they did not join, later because they have failed.
func (j *Job) Fence(ctx context.Context) error {
	if err := j.beginFence(ctx, "fence"); err != nil {
		return err
	}
	defer j.endFence()
	if j.pmi == nil {
		j.end()
		return nil
	}
	err := j.pmi.enter(ctx)
	if j.SparesDead() {
		j.end()
	} else {
		defer j.end()
	}
	if err != nil {
		return err
	}
	return j.pmi.leaveBarrier(ctx, !j.SparesDead())
}

// Lose has fences of the other ranks end without one that counts as failed here, although its process may run. With a
// launcher that is not Banyan's it does nothing. If rank 0 serves in place of a launcher, its loss is the launcher's.
func (j *Job) Lose(ctx context.Context, rank int) error {
	if j.pmi == nil || !j.SparesDead() {
		return nil
	}
	if !j.launched && rank == 0 {
		return j.pmi.shut() // without the turn: a request that it does not answer may hold it
	}
	if err := j.begin(ctx, "lose"); err != nil {
		return err
	}
	defer j.end()
	return j.pmi.put(ctx, pmi.LostKey(rank, j.rank), "1")
}

// Finalize announces the orderly end of this rank to the launcher and closes the connection, also
// when it returns an error. The end of the launcher is no error. Finalize waits for no other rank.
// A second call is an error of class [ErrClosed].
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
	if j.server != nil {
		j.server.Close()
	}
	return err
}

// Abort asks the launcher to end all processes of the job and to report code. It does not wait for
// that and does not end this process: the caller does. msg is for people; only its first 200 bytes
// are sent. In a world of one Abort does nothing. Without a launcher no process can end the others,
// and the error is of class [ErrRefused].
func (j *Job) Abort(code int, msg string) error {
	if j.pmi == nil {
		return nil
	}
	if !j.launched {
		return fmt.Errorf("launch: abort: %w: the ranks were started without launcher; "+
			"exit with a code other than 0, which their parent process sees", pmi.ErrRefused)
	}
	return j.pmi.abort(code, msg)
}
