package messages

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// Tags of the tested message and of signals.
const (
	tagTested = 1
	tagSignal = 2
)

// signal and await exchange an empty message: after await the peer has reached its signal.
func signal(c *banyan.Comm, peer int) error { return c.Send(nil, peer, tagSignal) }

func await(c *banyan.Comm, peer int) error {
	_, err := c.Recv(nil, peer, tagSignal)
	return err
}

// A synchronous send of any length completes when its receive has matched, and not before.
func TestSynchronousSend(t *testing.T) {
	for _, size := range []int{0, 8, 3000, 20_000, 1 << 20} {
		ranktest.WithAndWithoutGet(t, 2, func(c *banyan.Comm) error {
			if c.Rank() == 1 {
				if err := errors.Join(await(c, 0), signal(c, 0), await(c, 0)); err != nil {
					return err
				}
				return ranktest.ExpectPattern(c, 0, tagTested, size)
			}
			r := c.Issend(ranktest.Pattern(0, size), 1, tagTested)
			// The peer answers after the message has arrived.
			if err := errors.Join(signal(c, 1), await(c, 1)); err != nil {
				return err
			}
			if _, done, err := r.Test(); done || err != nil {
				return fmt.Errorf("%d bytes: complete before the match: %v, %v", size, done, err)
			}
			if err := signal(c, 1); err != nil {
				return err
			}
			_, err := r.Wait()
			return err
		})
	}
}

// The requests of receives of numbers count elements, as Recv does, and report messages that are no
// whole number of elements.
func TestIrecvCountsElements(t *testing.T) {
	for _, debug := range []bool{false, true} {
		require.NoError(t, banyan.Simulate(2, banyan.Simulation{
			Options: []banyan.Option{banyan.WithDebug(debug)},
		}, func(w *banyan.World) error {
			c := w.Comm()
			bound := c.WithContext(t.Context())
			for kind, take := range takes {
				for n, on := range []*banyan.Comm{c, bound, c, c} {
					if c.Rank() == 1 {
						sent := []int32{1, 2, 3, 4}
						if n == 2 {
							sent = sent[:3]
						}
						if err := banyan.Send(c, sent, 0, n); err != nil {
							return err
						}
						continue
					}
					if n == 3 { // posted late, from anywhere
						if _, err := c.Probe(1, n); err != nil {
							return err
						}
					}
					if err := counts(on, n, debug, kind, take); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
}

// counts receives a message: the one with tag 2 is no whole number of elements.
func counts(on *banyan.Comm, tag int, debug bool, kind string, take func(banyan.Request) (banyan.Status, error)) error {
	src := 1
	if tag == 3 {
		src = banyan.AnySource
	}
	if tag != 2 {
		st, err := take(banyan.Irecv(on, make([]int32, 8), src, tag))
		if kind != "WaitAll" && st.Count != 4 || err != nil {
			return fmt.Errorf("%s, debug %v, tag %d: want 4 elements: %+v, %w", kind, debug, tag, st, err)
		}
		return nil
	}
	_, err := take(banyan.Irecv(on, make([]int64, 8), src, tag))
	if !errors.Is(err, banyan.ErrArgument) {
		return fmt.Errorf("%s, debug %v: want ErrArgument of 12 bytes as elements of 8: %v", kind, debug, err)
	}
	return nil
}

// takes are the calls that end a request.
var takes = map[string]func(r banyan.Request) (banyan.Status, error){
	"Wait": banyan.Request.Wait,
	"Test": func(r banyan.Request) (banyan.Status, error) {
		for {
			if st, done, err := r.Test(); done || err != nil {
				return st, err
			}
		}
	},
	"WaitAll": func(r banyan.Request) (st banyan.Status, err error) {
		return st, banyan.WaitAll([]banyan.Request{r})
	},
	"WaitEach": func(r banyan.Request) (banyan.Status, error) {
		var out [1]banyan.Outcome
		_ = banyan.WaitEach([]banyan.Request{r}, out[:])
		return out[0].Status, out[0].Err
	},
	"WaitAny": func(r banyan.Request) (banyan.Status, error) {
		_, st, err := banyan.WaitAny([]banyan.Request{r})
		return st, err
	},
	"WaitSome": func(r banyan.Request) (banyan.Status, error) {
		out, err := banyan.WaitSome([]banyan.Request{r}, nil)
		return out[0].Status, errors.Join(err, out[0].Err)
	},
	"TestSome": func(r banyan.Request) (banyan.Status, error) {
		reqs := []banyan.Request{r}
		for {
			if out, _, err := banyan.TestSome(reqs, nil); len(out) > 0 || err != nil {
				return out[0].Status, errors.Join(err, out[0].Err)
			}
		}
	},
}

// Ranks replace their buffers round the ring, with short and long messages.
func TestSendrecvReplace(t *testing.T) {
	ranktest.WithAndWithoutGet(t, 3, func(c *banyan.Comm) error {
		next, prev := (c.Rank()+1)%3, (c.Rank()+2)%3
		for _, size := range []int{0, 8, 3000, 1 << 20, 100} {
			buf := ranktest.Pattern(c.Rank(), size)
			st, err := c.SendrecvReplace(buf, next, tagTested, prev, tagTested)
			if err != nil || st.Count != size || !bytes.Equal(buf, ranktest.Pattern(prev, size)) {
				return fmt.Errorf("%d bytes: %+v, %w", size, st, err)
			}
			data := []float64{float64(c.Rank()), 1}
			st, err = banyan.SendrecvReplace(c, data, next, tagTested, prev, tagTested)
			if err != nil || st.Count != 2 || data[0] != float64(prev) {
				return fmt.Errorf("numbers: %v, %+v, %w", data, st, err)
			}
		}
		return nil
	})
}

// All modes of sends arrive in the order in which they were sent.
func TestModesKeepOrder(t *testing.T) {
	ranktest.WithAndWithoutGet(t, 2, func(c *banyan.Comm) error {
		sizes := []int{5, 0, 30_000, 100, 200_000, 1}
		if c.Rank() == 1 {
			for range 4 {
				for _, size := range sizes {
					if err := ranktest.ExpectPattern(c, 0, tagTested, size); err != nil {
						return err
					}
				}
			}
			return nil
		}
		var reqs []banyan.Request
		for mode := range 4 {
			for _, size := range sizes {
				buf := ranktest.Pattern(0, size)
				switch mode {
				case 0:
					reqs = append(reqs, c.Isend(buf, 1, tagTested))
				case 1:
					reqs = append(reqs, c.Issend(buf, 1, tagTested))
				case 2:
					reqs = append(reqs, c.Irsend(buf, 1, tagTested))
				default:
					if err := c.Rsend(buf, 1, tagTested); err != nil {
						return err
					}
				}
			}
		}
		return banyan.WaitAll(reqs)
	})
}

// A synchronous send to oneself completes with the receive.
func TestSynchronousSendToOneself(t *testing.T) {
	for _, size := range []int{0, 8, 100_000} {
		ranktest.WithAndWithoutGet(t, 1, func(c *banyan.Comm) error {
			r := c.Issend(ranktest.Pattern(0, size), 0, tagTested)
			if _, done, _ := r.Test(); done {
				return errors.New("complete before the match")
			}
			if err := ranktest.ExpectPattern(c, banyan.AnySource, tagTested, size); err != nil {
				return err
			}
			_, err := r.Wait()
			return err
		})
	}
}

// ULFM 17.2.2: a synchronous send whose receiver dies ends with the failure.
func TestSynchronousSendToTheDead(t *testing.T) {
	for _, size := range []int{0, 8, 100_000} {
		require.NoError(t, ranktest.WithDeath(2, func(c *banyan.Comm) error {
			return ranktest.WantFailed(c.Ssend(make([]byte, size), 1, tagTested), 1)
		}))
	}
}

func TestSeveralWithProcesses(t *testing.T) { ranktest.Succeed(t, 2, "several", "BANYAN_DETECT=off") }

func TestModesWithProcesses(t *testing.T) {
	for _, env := range [][]string{nil, {ranktest.EagerEnv + "=50000"}, {ranktest.NoCopyEnv + "=1"}} {
		ranktest.Succeed(t, 2, "modes", env...)
	}
}

// several has goroutines of both ranks wait for the first of many requests at the same time, and
// counts the allocations of the last rounds.
func several(w *banyan.World) error {
	c := w.Comm()
	const goroutines, rounds = 4, 400
	errs := make(chan error, 2*goroutines)
	var before, after runtime.MemStats
	halves := make(chan struct{}, goroutines)
	for g := range goroutines {
		go func() {
			errs <- firstOfMany(c, g*100, rounds)
			halves <- struct{}{}
			errs <- firstOfMany(c, g*100, rounds)
		}()
	}
	for range goroutines {
		<-halves
	}
	runtime.ReadMemStats(&before)
	var err error
	for range 2 * goroutines {
		err = errors.Join(err, <-errs)
	}
	runtime.ReadMemStats(&after)
	// Each round has a dozen calls. firstOfMany itself and the parkers of goroutines allocate some
	// hundred times.
	most := goroutines*rounds/2 + ranktest.Allocations(goroutines*rounds*messages)
	if n := after.Mallocs - before.Mallocs; n > most {
		err = errors.Join(err, fmt.Errorf("%d allocations in %d rounds", n, goroutines*rounds))
	}
	return err
}

const messages = 12 // of each round, sends and receives

func firstOfMany(c *banyan.Comm, tag, rounds int) error {
	const n = messages / 2
	bufs, reqs := make([][]byte, n), make([]banyan.Request, 0, 2*n)
	sends := make([]*banyan.Persistent, n)
	for i := range bufs {
		bufs[i] = make([]byte, ranktest.Sizes[i%4])
		sends[i] = c.SendInit(ranktest.Pattern(c.Rank(), ranktest.Sizes[i%4]), 1-c.Rank(), tag+i)
	}
	for range rounds {
		reqs = reqs[:0]
		for i, p := range sends {
			reqs = append(reqs, c.Irecv(bufs[i], 1-c.Rank(), tag+i), p.Start())
		}
		for range reqs {
			i, st, err := banyan.WaitAny(reqs)
			if err != nil {
				return err
			}
			if i < 0 || i%2 == 0 && st.Count != len(bufs[i/2]) {
				return fmt.Errorf("request %d: %+v", i, st)
			}
		}
		if i, _, err := banyan.WaitAny(reqs); i >= 0 || err != nil {
			return fmt.Errorf("one too many: %d, %w", i, err)
		}
	}
	return nil
}
