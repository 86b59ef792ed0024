package progress

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/fabric/host"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// second is shared memory under another name: a real provider beside the first.
type second struct{ *shm.Provider }

func (second) Name() string { return "second" }

// pair is two engines with two providers each; dirs are the places of the first ones' memory, ""
// for a memfd. refuse decides for the second.
func pair(t *testing.T, dirs [2]string, refuse error) (e [2]*Engine) {
	t.Helper()
	copy(e[:], enginesOver(t, dirs[:], func(_, _ int, provider string) error {
		if provider == "second" {
			return refuse
		}
		return nil
	}))
	return e
}

// enginesOver makes engines with two providers each. refuse names the pairs that a provider does
// not join. They never sleep: only one of the two bells would wake them.
func enginesOver(t *testing.T, dirs []string, refuse func(from, to int, provider string) error) []*Engine {
	t.Helper()
	awake := math.MaxInt
	n := len(dirs)
	firsts, seconds := make([]*shm.Provider, n), make([]second, n)
	open := func(i int, dir string) *shm.Provider {
		p, err := shm.Open(shm.Config{Self: proc.ID(i), MaxProcs: n, Dir: dir})
		require.NoError(t, err)
		return p
	}
	for i, dir := range dirs {
		firsts[i], seconds[i] = open(i, dir), second{open(i, "")}
	}
	engines := make([]*Engine, n)
	for i := range engines {
		engines[i] = New(Config{
			Self: proc.ID(i), Host: host.New(host.Config{Spins: &awake}),
			Shm: firsts[i], Others: []fabric.Provider{seconds[i]},
			Resolve: func(provider string, peer proc.ID) ([]byte, error) {
				if err := refuse(i, int(peer), provider); err != nil {
					return nil, err
				}
				if provider == "shm" {
					return firsts[peer].Address(), nil
				}
				return seconds[peer].Address(), nil
			},
		})
		t.Cleanup(func() { require.NoError(t, engines[i].Close()) })
	}
	return engines
}

func send(e *Engine, ep *Endpoint, imm uint64) {
	e.Lock()
	for !ep.TrySend(fabric.ClassTest, imm, nil) {
		e.Progress()
	}
	e.Unlock()
}

// Where shared memory fails for one side only, both use the next provider or both learn that they
// cannot reach each other, whichever is first; never different ones.
func TestAsymmetricPairUsesOneProvider(t *testing.T) {
	outcomes := map[string]int{}
	for i := range 300 {
		e := pair(t, [2]string{"", "/dev/shm"}, nil)
		got := [2][]uint64{}
		for me := range e {
			e[me].Handle(fabric.ClassTest, func(_ proc.ID, imm uint64, _ []byte) { got[me] = append(got[me], imm) })
		}
		var eps [2]*Endpoint
		var errs [2]error
		connect := func(me int) { eps[me], errs[me] = e[me].Endpoint(proc.ID(1 - me)) }
		if first := i % 3; first < 2 {
			connect(first)
			connect(1 - first)
		} else {
			var wg sync.WaitGroup
			wg.Go(func() { connect(0) })
			wg.Go(func() { connect(1) })
			wg.Wait()
		}
		outcomes[settle(t, e, eps, errs, &got)]++
		for me := range e {
			require.NoError(t, e[me].Close())
		}
	}
	t.Log(outcomes)
	require.NotZero(t, outcomes["second"])
	require.NotZero(t, outcomes["unreachable"])
}

// settle makes the two exchange frames, if they can, and returns the provider.
func settle(t *testing.T, e [2]*Engine, eps [2]*Endpoint, errs [2]error, got *[2][]uint64) string {
	t.Helper()
	round := func() {
		for _, x := range e {
			x.Lock()
			x.Progress()
			x.Unlock()
		}
	}
	require.NoError(t, errs[1], "this one can")
	if errs[0] != nil {
		require.NotErrorIs(t, errs[0], fabric.ErrNoPath)
		require.Equal(t, "shm", eps[1].Fabric())
		for e[0].Lookup(1) == nil || e[0].Lookup(1).State == Alive || eps[1].State == Alive {
			round()
		}
		require.Equal(t, Failed, eps[1].State)
		return "unreachable"
	}
	for i := range uint64(100) {
		send(e[0], eps[0], i)
		send(e[1], eps[1], i)
	}
	for len(got[0]) < 100 || len(got[1]) < 100 {
		round()
	}
	require.Equal(t, got[0], got[1])
	require.Equal(t, "second", eps[0].Fabric())
	require.Equal(t, "second", eps[1].Fabric())
	require.Nil(t, e[0].shm.Lookup(1))
	require.Nil(t, e[1].shm.Lookup(0))
	return "second"
}

// Where no provider joins the pair, the error has the reasons of all.
func TestNoRoute(t *testing.T) {
	e := pair(t, [2]string{"", "/dev/shm"}, fmt.Errorf("%w: second: a wall", fabric.ErrNoPath))
	_, err := e[0].Endpoint(1)
	var none *NoRouteError
	require.ErrorAs(t, err, &none)
	require.Equal(t, proc.ID(1), none.Peer)
	require.Len(t, none.Tried, 2)
	for _, part := range []string{"process 1", "not sealed", "a wall"} {
		require.ErrorContains(t, err, part)
	}
	require.ErrorIs(t, err, fabric.ErrNoPath)
	alone := New(Config{Host: host.New(host.Config{})})
	_, err = alone.Endpoint(1)
	require.ErrorContains(t, err, "none is open")
	require.NoError(t, alone.Close())
	_, err = alone.Endpoint(2)
	require.ErrorIs(t, err, ErrClosed)
}

// A temporary error is no reason for another provider: the peer may be connected.
func TestShortageDoesNotReroute(t *testing.T) {
	want := errors.New("no descriptor left")
	e := enginesOver(t, []string{"", ""}, func(_, _ int, provider string) error {
		if provider == "shm" {
			return want
		}
		return nil
	})
	_, err := e[0].Endpoint(1)
	require.ErrorIs(t, err, want)
	require.Nil(t, e[0].Lookup(1))
}

// One process reaches one peer by shared memory and another by the second provider, and receives
// from both, also while one of them never pauses.
func TestTwoProvidersAtOnce(t *testing.T) {
	var routes []string
	e := enginesOver(t, []string{"", "", ""}, func(from, to int, provider string) error {
		if provider == "shm" && from+to == 2 { // 0 and 2
			return fmt.Errorf("%w: shm: not for these two", fabric.ErrNoPath)
		}
		return nil
	})
	e[0].routed = func(ep *Endpoint) { routes = append(routes, fmt.Sprint(ep.Proc, " ", ep.Fabric(), " ", ep.Accepted)) }
	heard := map[proc.ID]int{}
	var done Completion
	e[0].Handle(fabric.ClassTest, func(from proc.ID, _ uint64, _ []byte) {
		if heard[from]++; heard[2] == 1000 && heard[1] > 0 || heard[1] == 1 && heard[2] >= 1000 {
			done.Finish()
		}
	})
	var stop sync.WaitGroup
	quit := make(chan struct{})
	stop.Go(func() { // never pauses
		ep, err := e[1].Endpoint(0)
		require.NoError(t, err)
		for {
			select {
			case <-quit:
				return
			default:
				e[1].Lock()
				ep.TrySend(fabric.ClassTest, 0, nil)
				e[1].Unlock()
			}
		}
	})
	stop.Go(func() {
		ep, err := e[2].Endpoint(0)
		require.NoError(t, err)
		require.Equal(t, "second", ep.Fabric())
		require.Len(t, ep.Tried, 1)
		for range 1000 {
			send(e[2], ep, 0)
		}
	})
	e[0].Lock()
	e[0].Wait(&done)
	e[0].Unlock()
	close(quit)
	stop.Wait()
	require.Equal(t, "second", e[0].Lookup(2).Fabric())
	require.Equal(t, "shm", e[0].Lookup(1).Fabric())
	require.ElementsMatch(t, []string{"process 1 shm true", "process 2 second true"}, routes)
	require.Empty(t, e[0].Lookup(2).Tried)
}

// Only the provider that joins the pair reports a peer's end, and once.
func TestEndByAnotherProvider(t *testing.T) {
	e := pair(t, [2]string{"", ""}, nil)
	ep, err := e[0].Endpoint(1)
	require.NoError(t, err)
	var told []string
	e[0].OnEnd(func(ep *Endpoint, c proc.Cause) { told = append(told, strings.TrimSpace(fmt.Sprint(ep.Proc, " ", c))) })
	o := e[0].others[0]
	e[0].Lock()
	defer e[0].Unlock()
	o.sink.Down(1, proc.Cause{Kind: proc.Connection})
	o.sink.Departed(1)
	require.Equal(t, Alive, ep.State)
	e[0].sink.Down(1, proc.Cause{Kind: proc.Exited, Code: 1})
	e[0].sink.Departed(1)
	require.Equal(t, Failed, ep.State)
	require.Equal(t, []string{"process 1 exited with code 1 without finalizing"}, told)
}

// A process that ended before it could publish an address is a failed peer, as one that is found to
// have ended when it is connected to.
func TestPeerWithoutAddress(t *testing.T) {
	e := pair(t, [2]string{}, fabric.ErrPeerGone)[0]
	e.resolve = func(string, proc.ID) ([]byte, error) {
		return nil, fmt.Errorf("%w: it has published nothing", fabric.ErrPeerGone)
	}
	told := 0
	e.OnEnd(func(ep *Endpoint, cause proc.Cause) {
		require.True(t, cause.Failed())
		told++
	})
	for range 2 {
		ep, err := e.Endpoint(1)
		require.NoError(t, err)
		require.Equal(t, Failed, ep.State)
	}
	require.Equal(t, 1, told)
	require.True(t, e.View().Failed(1))
}
