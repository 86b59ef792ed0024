package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/launch/pmi"
)

// roleJoin joins and fences, and says how that went.
func roleJoin() error {
	ctx := context.Background()
	j, err := join.Join(ctx)
	if err != nil {
		return err
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	return j.Finalize(ctx)
}

// roleSurvive tells the test over a socket how it fares when rank 0 is dead.
func roleSurvive() error {
	ctx := context.Background()
	j, err := join.Join(ctx)
	if err != nil {
		return err
	}
	if err := j.Put(ctx, "k", []byte("v")); err != nil {
		return err
	}
	if err := j.Fence(ctx); err != nil {
		return err
	}
	test, err := net.Dial("unix", os.Getenv(socketEnv))
	if err != nil {
		return err
	}
	fmt.Fprintf(test, "%d\n", j.Rank())
	if _, err := bufio.NewReader(test).ReadString('\n'); err != nil {
		return err
	}
	_, err = j.Get(ctx, 1, "k")
	fmt.Fprintf(test, "get: %v\n", errors.Is(err, pmi.ErrLauncherGone))
	fmt.Fprintf(test, "fence: %v\n", errors.Is(j.Fence(ctx), pmi.ErrLauncherGone))
	fmt.Fprintf(test, "abort: %v\n", errors.Is(j.Abort(1, ""), pmi.ErrRefused))
	fmt.Fprintf(test, "finalize: %v\n", j.Finalize(ctx))
	return nil
}
