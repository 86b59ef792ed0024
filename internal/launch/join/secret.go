package join

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/launch/rendezvous"
)

// secretKey is the key under which rank 0 publishes its part of the secret. Keys of users have no
// dash.
const secretKey = "job-secret"

// Secret returns 32 bytes that are the same in all ranks of the job and known to no one else, as
// far as their way allows (package comment, "The secret"). They are derived from the file that
// [SecretFileEnv] names and from the job's ID, so two jobs with one file have different ones.
// Without a file rank 0 makes them at random and publishes them as [Job.Put] does.
//
// It costs no fence of its own if rank 0 calls it before an existing fence, and the others after
// it:
//
//	if job.Rank() == 0 {
//		secret, err = job.Secret(ctx) // returns at once
//	}
//	err = job.Fence(ctx)
//	if job.Rank() > 0 {
//		secret, err = job.Secret(ctx)
//	}
//
// Later calls return the same. A rank that calls it too early gets an error of class [ErrNotFound];
// one whose file is not that of rank 0, or that has a file when rank 0 has none, gets one of class
// [ErrEnvironment]. The secret of a world of one is random, and no file is read.
func (j *Job) Secret(ctx context.Context) ([]byte, error) {
	if err := j.begin(ctx, "secret"); err != nil {
		return nil, err
	}
	defer j.end()
	if j.secret == nil {
		secret, err := j.findSecret(ctx)
		if err != nil {
			return nil, fmt.Errorf("launch: secret: %w", err)
		}
		j.secret = &secret
	}
	return slices.Clone(j.secret[:]), nil
}

// findSecret is Secret with the turn.
func (j *Job) findSecret(ctx context.Context) (secret [rendezvous.SecretLen]byte, err error) {
	purpose := "job " + j.id
	if j.rank > 0 {
		published, err := j.lookup(ctx, 0, secretKey)
		if errors.Is(err, pmi.ErrNotFound) {
			err = fmt.Errorf("%w: rank 0 calls Secret before a Fence, the others after it", pmi.ErrNotFound)
		}
		if err != nil {
			return secret, err
		}
		return j.seed.Compare(purpose, published)
	}
	secret, published := j.seed.Share(purpose)
	if j.size == 1 {
		return secret, nil
	}
	return secret, j.publish(ctx, secretKey, published)
}
