package messages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/banyan-hpc/banyan"
)

// This file compares matching with a model of MPI's rules that is so simple that it is obviously
// right. Every rank sends at random to all and receives at random, by name and by wildcard, with
// probes, matched probes and cancels. All matches
// are recorded and checked against the rules:
//
//   - each message is received once, whole, by a receive that requested it;
//   - if a receive took a message, each earlier one of the same source and
//     context that it would have taken too was taken by a receive posted before;
//   - the result of a probe is the message that the next receive of that source and tag gets;
//   - a receive that was cancelled has taken nothing;
//   - a receive that was reported as pending, because a rank has died that takes no
//     part in this, has kept its place: the rules apply to it as to others.

// phaseSends is how many messages a rank sends in one phase. Phases are checked one by one, so the
// checks may be quadratic.
const phaseSends = 60

// sent is a message as its sender plans it. Every rank can compute the plan from the seed.
type sent struct {
	dst, ctx, tag, size int
	mode                int // 0 standard, 1 synchronous, 2 ready
	// by is the receive that took it, at its destination.
	by *wanted
}

// wanted is a receive, or a matched probe.
type wanted struct {
	order         int // of posting
	src, ctx, tag int
	buf           []byte
	req           banyan.Request
}

func (w *wanted) String() string {
	return fmt.Sprintf("receive %d for %d, tag %d", w.order, w.src, w.tag)
}

func (w *wanted) takes(src, tag int) bool {
	return (w.src == banyan.AnySource || w.src == src) && (w.tag == banyan.AnyTag || w.tag == tag)
}

// matcher is one rank of the comparison.
type matcher struct {
	r     *rand.Rand
	seed  uint64
	comms []*banyan.Comm // the contexts
	size  int
	ops   int // started sends and receives, successful probes and cancels
	// Numbers of pending receives and of acknowledgements.
	pending, acked int
	// State of the phase: the messages of all ranks by source, in their order; the open receives;
	// the number of messages still to come.
	plan  [][]*sent
	open  []*wanted
	order int
	left  int
	sends []banyan.Request
}

// planOf lists the messages of a rank in a phase.
func planOf(seed uint64, phase, src, ranks int) []*sent {
	r := rand.New(rand.NewPCG(seed, uint64(phase)<<20|uint64(src)))
	plan := make([]*sent, phaseSends)
	for i := range plan {
		plan[i] = &sent{
			dst: r.IntN(ranks), ctx: r.IntN(2), tag: r.IntN(4), mode: max(0, r.IntN(6)-3),
			size: 8 + []int{0, r.IntN(60), r.IntN(4000), r.IntN(40_000)}[min(3, r.IntN(12)/3*r.IntN(2))],
		}
	}
	return plan
}

// content starts with a message's source and number. The rest differs between messages.
func content(s *sent, src, number int) []byte {
	b := make([]byte, s.size)
	for i := range b {
		b[i] = byte(number + i*i>>4)
	}
	binary.LittleEndian.PutUint64(b, uint64(src)<<32|uint64(number))
	if s.size == 8 {
		b[7] ^= 8
	}
	return b
}

// compare runs phases until this rank has done a number of operations.
func compare(w *banyan.World, seed uint64, ops int) (int, error) {
	m, err := newMatcher(w.Comm(), seed, w.Comm().Size())
	if err != nil {
		return 0, err
	}
	return m.run(ops)
}

// newMatcher makes a rank of a comparison of the first size ranks.
func newMatcher(c *banyan.Comm, seed uint64, size int) (*matcher, error) {
	d, err := c.Dup()
	return &matcher{
		r:    rand.New(rand.NewPCG(seed, uint64(c.Rank()))),
		seed: seed, comms: []*banyan.Comm{c, d}, size: size,
	}, err
}

func (m *matcher) run(ops int) (int, error) {
	c := m.comms[0]
	between, err := c.Dup()
	if err != nil {
		return 0, err
	}
	// A phase has one send and one receive per message, and more. All ranks run the same number of
	// phases.
	for phase := range ops/(2*phaseSends) + 1 {
		if err := m.phase(phase); err != nil {
			return m.ops, fmt.Errorf("rank %d, phase %d of seed %d: %w", c.Rank(), phase, m.seed, err)
		}
		if err := barrier(between, m.size); err != nil {
			return m.ops, err
		}
	}
	return m.ops, nil
}

// barrier returns when the first n ranks have called it.
func barrier(c *banyan.Comm, n int) error {
	for d := 1; d < n; d *= 2 {
		to, from := (c.Rank()+d)%n, (c.Rank()+n-d)%n
		if _, err := c.Sendrecv(nil, to, 0, nil, from, 0); err != nil {
			return err
		}
	}
	return nil
}

func (m *matcher) phase(phase int) error {
	me := m.comms[0].Rank()
	m.plan, m.order, m.left, m.sends = make([][]*sent, m.size), 0, 0, m.sends[:0]
	for src := range m.plan {
		m.plan[src] = planOf(m.seed, phase, src, m.size)
		for _, s := range m.plan[src] {
			if s.dst == me {
				m.left++
			}
		}
	}
	next := 0
	for next < phaseSends || m.left > 0 {
		if next < phaseSends && m.r.IntN(4) == 0 {
			m.send(m.plan[me][next], next)
			next++
		} else if err := m.receive(next == phaseSends); err != nil {
			return err
		}
	}
	for _, w := range m.open {
		w.req.Cancel()
		if st, err := w.req.Wait(); !st.Cancelled || err != nil {
			return fmt.Errorf("a receive is left, and its outcome is %+v, %w", st, err)
		}
	}
	m.open = m.open[:0]
	if err := banyan.WaitAll(m.sends); err != nil {
		return err
	}
	return m.check()
}

func (m *matcher) send(s *sent, number int) {
	m.ops++
	c := m.comms[s.ctx]
	buf := content(s, c.Rank(), number)
	begin := []func([]byte, int, int) banyan.Request{c.Isend, c.Issend, c.Irsend}[s.mode]
	m.sends = append(m.sends, begin(buf, s.dst, s.tag))
}

// want draws a receive. Wide receives have more wildcards, so that the phase ends.
func (m *matcher) want(wide bool) *wanted {
	w := &wanted{order: m.order, src: m.r.IntN(m.size), ctx: m.r.IntN(2), tag: m.r.IntN(4)}
	m.order++
	if k := m.r.IntN(3); k == 0 || wide && k == 1 {
		w.src = banyan.AnySource
	}
	if k := m.r.IntN(3); k == 0 || wide && k == 1 {
		w.tag = banyan.AnyTag
	}
	return w
}

// receive does one operation of the receiving side.
func (m *matcher) receive(wide bool) error {
	switch k := m.r.IntN(10); {
	case k < 3 && len(m.open) < 30:
		return m.post(m.want(wide))
	case k < 4:
		return m.probe(m.want(wide))
	case k < 5:
		return m.claim(m.want(wide))
	case k < 6 && len(m.open) > 0:
		return m.cancel(m.r.IntN(len(m.open)))
	case k < 7:
		return m.testAny()
	case len(m.open) > 0:
		return m.test(m.r.IntN(len(m.open)))
	}
	return nil
}

func (m *matcher) post(w *wanted) error {
	m.ops++
	w.buf = make([]byte, 40_008)
	w.req = m.comms[w.ctx].Irecv(w.buf, w.src, w.tag)
	m.open = append(m.open, w)
	return nil
}

// probe checks a probe's status by receiving the message.
func (m *matcher) probe(w *wanted) error {
	st, found, err := m.comms[w.ctx].Iprobe(w.src, w.tag)
	if err != nil || !found {
		return m.pass(err, w)
	}
	m.ops++
	if !w.takes(st.Source, st.Tag) {
		return fmt.Errorf("probe for %d, %d has found %+v", w.src, w.tag, st)
	}
	w.src, w.tag = st.Source, st.Tag
	w.buf = make([]byte, st.Count)
	got, err := m.comms[w.ctx].Recv(w.buf, w.src, w.tag)
	if err != nil || got != st {
		return fmt.Errorf("the probe told of %+v, received %+v, %w", st, got, err)
	}
	return m.took(w, got)
}

func (m *matcher) claim(w *wanted) error {
	msg, found, err := m.comms[w.ctx].Improbe(w.src, w.tag)
	if err != nil || !found {
		return m.pass(err, w)
	}
	m.ops++
	w.buf = make([]byte, msg.Status().Count)
	if m.r.IntN(2) == 0 { // others may be matched before it is received
		w.req = msg.Irecv(w.buf)
		m.open = append(m.open, w)
		return nil
	}
	st, err := msg.Recv(w.buf)
	if err != nil || st != msg.Status() {
		return fmt.Errorf("the probe told of %+v, received %+v, %w", msg.Status(), st, err)
	}
	return m.took(w, st)
}

func (m *matcher) cancel(i int) error {
	w := m.open[i]
	w.req.Cancel()
	st, err := w.req.Wait()
	if err != nil {
		return err
	}
	m.drop(i)
	if st.Cancelled {
		m.ops++
		return nil
	}
	return m.took(w, st)
}

func (m *matcher) test(i int) error {
	w := m.open[i]
	st, done, err := w.req.Test()
	if err != nil || !done {
		return m.pass(err, w)
	}
	m.drop(i)
	return m.took(w, st)
}

func (m *matcher) testAny() error {
	reqs := make([]banyan.Request, len(m.open))
	for i, w := range m.open {
		reqs[i] = w.req
	}
	i, st, _, err := banyan.TestAny(reqs)
	if i < 0 {
		return err
	}
	w := m.open[i]
	if err != nil {
		return m.pass(err, w)
	}
	m.drop(i)
	return m.took(w, st)
}

// pass accepts the errors of wildcards that a death causes: a pending receive, a failed probe. Now
// and then it acknowledges the failure.
func (m *matcher) pass(err error, w *wanted) error {
	if err == nil {
		return nil
	}
	var failed *banyan.ProcFailedError
	posted := w.req != (banyan.Request{})
	switch {
	case !errors.As(err, &failed) || w.src != banyan.AnySource || failed.Pending != posted || len(failed.Ranks) == 0:
		return err
	case slices.Min(failed.Ranks) < m.size:
		return fmt.Errorf("the living are said to be dead: %w", err)
	}
	m.pending++
	if m.r.IntN(20) == 0 {
		m.acked++
		return m.comms[w.ctx].FailureAck()
	}
	return nil
}

func (m *matcher) drop(i int) {
	last := len(m.open) - 1
	m.open[i] = m.open[last]
	m.open = m.open[:last]
}

// took records a receive's message. It checks that the message was sent to this rank, fits the
// receive, is complete, and was not received before.
func (m *matcher) took(w *wanted, st banyan.Status) error {
	if st.Count < 8 {
		return fmt.Errorf("received %+v", st)
	}
	word := binary.LittleEndian.Uint64(w.buf)
	if st.Count == 8 { // no further bytes identify the length
		word ^= uint64(st.Count) << 56
	}
	src, number := int(word>>32), int(uint32(word))
	if src != st.Source || number >= phaseSends {
		return fmt.Errorf("received %+v that says to be number %d of rank %d", st, number, src)
	}
	s := m.plan[src][number]
	switch {
	case s.dst != m.comms[0].Rank() || s.ctx != w.ctx || s.tag != st.Tag || s.size != st.Count:
		return fmt.Errorf("received %+v in context %d, sent was %+v", st, w.ctx, *s)
	case !w.takes(src, s.tag):
		return fmt.Errorf("a receive for %d, %d took %+v", w.src, w.tag, st)
	case !bytes.Equal(w.buf[:s.size], content(s, src, number)):
		return fmt.Errorf("%+v is not what was sent", st)
	case s.by != nil:
		return fmt.Errorf("received twice: %+v", st)
	}
	s.by = w
	m.left--
	return nil
}

// check compares the phase's matches with the rule of order.
func (m *matcher) check() error {
	me := m.comms[0].Rank()
	for src, plan := range m.plan {
		for j, later := range plan {
			for i, earlier := range plan[:j] {
				if later.dst != me || earlier.dst != me || later.ctx != earlier.ctx {
					continue
				}
				if later.by.takes(src, earlier.tag) && earlier.by.order > later.by.order {
					return fmt.Errorf("message %d of rank %d was overtaken by %d: %v, %v", i, src, j, earlier.by,
						later.by)
				}
			}
		}
	}
	return nil
}
