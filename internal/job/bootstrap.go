package job

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/internal/launch/join"
	"github.com/banyan-hpc/banyan/internal/proc"
	"github.com/banyan-hpc/banyan/internal/progress"
	"github.com/banyan-hpc/banyan/p2p"
)

// bootstrap provides the services of the launcher, or of the simulation, to a rank.
type bootstrap interface {
	Rank() int
	Size() int
	// Node numbers the nodes: equal for ranks that can share memory.
	Node(rank int) int
	// Crowded reports whether the ranks of some node share its cores. All ranks have the same answer.
	Crowded() bool
	// ByNode reports whether the trees of agreements follow the nodes. All ranks have the same answer.
	ByNode() bool
	// Verdicts reports for each fabric whether it joins this rank and a peer; nil in the simulator.
	Verdicts(peer proc.ID) ([]route.Verdict, error)
	// Address gives the address that a peer has published for a provider.
	Address(provider string, peer proc.ID) ([]byte, error)
	// Fence returns when every living rank has called it.
	Fence(ctx context.Context) error
	// SparesDead reports whether Fence completes without failed ranks.
	SparesDead() bool
	// Lose informs the launcher that a rank counts as failed here although its process may run, and does not wait.
	Lose(rank int)
	// Finalize informs the launcher that this rank departs.
	Finalize(ctx context.Context) error
	// Warn informs the user of the job, and does not wait.
	Warn(text string)
	// Closing ends the log of connections.
	Closing()
	// Expire ends this process because it must not go on. It does not return.
	Expire(why error)
	// Abort ends all processes of the job, this one too. It does not return.
	Abort(code int, why string)
}

// Detached is a rank of no job, and a communicator without members on which every operation is why.
func Detached(why error) (*Job, *p2p.Comm) {
	j, err := newJob(detached{simulated{simulatedJob: &simulatedJob{size: 1, perNode: 1}}}, progress.Config{Host: host.New(host.Config{})}, new(config))
	var core *p2p.Comm
	if err == nil {
		core, err = j.P2P.NewComm("no communicator", p2p.Group{}, noRank, detachedContext)
	}
	if err != nil {
		panic(fmt.Sprintf("banyan: the communicator without a job: %v", err)) // it depends on nothing outside
	}
	j.P2P.CloseFor(why)
	j.stopControl()
	return j, core
}

// noRank is the rank of a process that is no member.
const noRank = -3

// detached is the bootstrap of a rank of no job: that of a simulated job of one, without a
// simulation.
type detached struct{ simulated }

// Expire implements bootstrap.
func (d detached) Expire(why error) { d.Abort(ExitFenced, why.Error()) }

// Abort implements bootstrap.
func (detached) Abort(code int, why string) { AbortAlone(code, why) }

// AbortAlone ends this process with a message.
func AbortAlone(code int, why string) {
	lastWords(why)
	os.Exit(join.ExitStatus(code))
}

// lastWordsGrace is how long lastWords waits for a reader of a full pipe.
const lastWordsGrace = time.Second

// lastWords prints why this process ends. The end itself does not wait long for somebody to read that.
func lastWords(why string) {
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		fmt.Fprintln(os.Stderr, "banyan:", why)
	}()
	select {
	case <-printed:
	case <-time.After(lastWordsGrace):
	}
}
