package transcripts

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/banyan-hpc/banyan"
	"github.com/banyan-hpc/banyan/internal/ranktest"
)

// session is one rank of a transcript, with its communicators, requests and probed messages by
// name.
type session struct {
	w      *banyan.World
	comms  map[string]*banyan.Comm
	reqs   map[string]*started
	agreed map[string]banyan.Result[banyan.Group] // by non-blocking validates
	probed map[string]*banyan.Message
	flags  map[string]banyan.Result[uint64]       // of non-blocking agreements
	shrunk map[string]banyan.Result[*banyan.Comm] // by non-blocking shrinks
	told   []string                               // by the error handler, since the last question
}

type started struct {
	banyan.Request
	buf []byte // of a receive
}

func newSession(w *banyan.World) *session {
	return &session{
		w: w, comms: map[string]*banyan.Comm{"world": w.Comm()},
		reqs: map[string]*started{}, probed: map[string]*banyan.Message{}, agreed: map[string]banyan.Result[banyan.Group]{},
		flags: map[string]banyan.Result[uint64]{}, shrunk: map[string]banyan.Result[*banyan.Comm]{},
	}
}

// words are the arguments of a verb: pairs of a name and a value.
type words map[string]string

// number is a rank, tag or length; "any" and "null" have their MPI meaning.
func (a words) number(name string, otherwise int) int {
	switch v := a[name]; v {
	case "":
		return otherwise
	case "any":
		return banyan.AnySource // the same as AnyTag
	case "null":
		return banyan.ProcNull
	default:
		n, err := strconv.Atoi(v)
		if err != nil {
			panic(fmt.Sprintf("%s %s is no number", name, v))
		}
		return n
	}
}

// data is the contents of a message: text, or so many bytes of a pattern.
func (a words) data() []byte {
	if n := a.number("bytes", 0); n > 0 {
		return ranktest.Pattern(0, n)
	}
	return []byte(a["data"])
}

// found describes a message.
func found(st banyan.Status, data []byte) string {
	if st.Cancelled {
		return "cancelled"
	}
	s := fmt.Sprintf("from %d tag %d", st.Source, st.Tag)
	switch {
	case st.Source == banyan.ProcNull:
		return "from null"
	case data == nil:
		return s + fmt.Sprintf(" bytes %d", st.Count)
	case len(data) > 40 && bytes.Equal(data, ranktest.Pattern(0, len(data))):
		return s + fmt.Sprintf(" bytes %d", len(data))
	}
	return strings.TrimSpace(s + " data " + string(data))
}

// classes of errors by name.
var classes = []struct {
	name string
	err  error
}{
	{"revoked", banyan.ErrRevoked}, {"proc-failed-pending", banyan.ErrProcFailedPending},
	{"proc-failed", banyan.ErrProcFailed}, {"departed", banyan.ErrDeparted}, {"truncate", banyan.ErrTruncate},
	{"closed", banyan.ErrClosed}, {"argument", banyan.ErrArgument},
}

func failure(err error) string {
	for _, c := range classes {
		if !errors.Is(err, c.err) {
			continue
		}
		var failed *banyan.ProcFailedError
		if errors.As(err, &failed) && c.err != banyan.ErrRevoked { // a rank may not know the cause of a revocation
			return fmt.Sprintf("%s %v", c.name, failed.Ranks)
		}
		return c.name
	}
	return err.Error()
}

// do carries out one verb and returns its result.
func (s *session) do(line string) string {
	f := strings.Fields(line)
	verb, name := f[0], ""
	if f = f[1:]; len(f)%2 == 1 { // wait r, test r, dup c, …
		name, f = f[0], f[1:]
	}
	a := words{}
	for i := 0; i < len(f); i += 2 {
		a[f[i]] = f[i+1]
	}
	c := s.comms["world"]
	if on := a["on"]; on != "" {
		c = s.comms[on]
	}
	switch verb {
	case "send", "ssend", "rsend", "isend", "issend", "irsend":
		return s.send(verb, c, a)
	case "sendrecv":
		return s.sendrecv(c, a)
	case "failed", "acked", "ack", "failure-ack", "reenable", "profile":
		return s.acknowledge(verb, name, c)
	case "validate", "ivalidate", "agreed":
		return s.validate(verb, name, c, a)
	case "waitall", "waitany", "waitsome", "testall", "testany", "testsome":
		return s.set(verb, strings.Split(name, ","))
	case "agree", "iagree", "flag", "shrink", "ishrink", "left", "revoke", "revoked":
		return s.recovery(verb, name, c, a)
	case "barrier", "bcast", "allreduce":
		return s.collective(verb, c, a)
	case "recv", "irecv", "mrecv":
		return s.recv(verb, name, c, a)
	case "probe", "iprobe", "mprobe", "improbe":
		return s.probe(verb, c, a)
	}
	return s.manage(verb, name, c, a)
}

func (s *session) send(verb string, c *banyan.Comm, a words) string {
	to, tag := a.number("to", -9), a.number("tag", 0)
	blocking := map[string]func([]byte, int, int) error{"send": c.Send, "ssend": c.Ssend, "rsend": c.Rsend}
	begin := map[string]func([]byte, int, int) banyan.Request{"isend": c.Isend, "issend": c.Issend, "irsend": c.Irsend}
	if send := blocking[verb]; send != nil {
		if err := send(a.data(), to, tag); err != nil {
			return failure(err)
		}
		return "ok"
	}
	s.reqs[a["as"]] = &started{Request: begin[verb](a.data(), to, tag)}
	return "ok"
}

func (s *session) recv(verb, name string, c *banyan.Comm, a words) string {
	buf := make([]byte, a.number("max", 1<<20))
	if verb == "irecv" {
		s.reqs[a["as"]] = &started{c.Irecv(buf, a.number("from", -9), a.number("tag", 0)), buf}
		return "ok"
	}
	var st banyan.Status
	var err error
	if verb == "recv" {
		st, err = c.Recv(buf, a.number("from", -9), a.number("tag", 0))
	} else {
		st, err = s.probed[name].Recv(buf)
	}
	return outcome(st, buf, err)
}

func (s *session) sendrecv(c *banyan.Comm, a words) string {
	buf, tag := make([]byte, 1<<20), a.number("tag", 0)
	st, err := c.Sendrecv(a.data(), a.number("to", -9), tag, buf, a.number("from", -9), tag)
	return outcome(st, buf, err)
}

// collective has the verbs of collectives. With data a broadcast returns the buffer's contents,
// which are dots before except at the root.
func (s *session) collective(verb string, c *banyan.Comm, a words) string {
	var err error
	switch buf := make([]byte, 8); {
	case verb == "barrier":
		err = c.Barrier()
	case a["data"] != "":
		buf = []byte(strings.Repeat(".", len(a["data"])))
		if c.Rank() == a.number("root", 0) {
			copy(buf, a["data"])
		}
		if err = c.Bcast(buf, a.number("root", 0)); err == nil {
			return string(buf)
		}
	case verb == "bcast":
		err = c.Bcast(buf, a.number("root", 0))
	default:
		err = c.Allreduce(buf, buf, func(acc, in []byte) {})
	}
	if err != nil {
		return failure(err)
	}
	return "ok"
}

func outcome(st banyan.Status, buf []byte, err error) string {
	switch {
	case errors.Is(err, banyan.ErrTruncate):
		return found(st, buf[:st.Count]) + " truncate"
	case err != nil:
		return failure(err)
	case buf == nil:
		return "sent"
	}
	return found(st, buf[:st.Count])
}

// set has the verbs of several requests, separated by commas.
func (s *session) set(verb string, names []string) string {
	reqs := make([]banyan.Request, len(names))
	for i, name := range names {
		reqs[i] = s.reqs[name].Request
	}
	defer func() {
		for i, name := range names {
			s.reqs[name].Request = reqs[i]
		}
	}()
	one := func(i int, st banyan.Status, err error) string {
		return names[i] + ": " + outcome(st, s.reqs[names[i]].buf, err)
	}
	var all []string
	i, st, done, err := -1, banyan.Status{}, true, error(nil)
	var out []banyan.Outcome
	switch verb {
	case "waitall":
		err = banyan.WaitAll(reqs)
	case "testall":
		done, err = banyan.TestAll(reqs)
	case "waitany":
		i, st, err = banyan.WaitAny(reqs)
	case "testany":
		i, st, done, err = banyan.TestAny(reqs)
	case "waitsome":
		out, err = banyan.WaitSome(reqs, nil)
	default:
		var active int
		out, active, err = banyan.TestSome(reqs, nil)
		done = active == 0 || len(out) > 0
	}
	for _, o := range out {
		all = append(all, one(o.Index, o.Status, o.Err))
	}
	switch {
	case i >= 0:
		return one(i, st, err)
	case err != nil:
		return failure(err)
	case !done:
		return "pending"
	case len(all) > 0:
		return strings.Join(all, "; ")
	case strings.HasSuffix(verb, "all"):
		return "ok"
	}
	return "no request"
}

func (s *session) probe(verb string, c *banyan.Comm, a words) string {
	from, tag := a.number("from", -9), a.number("tag", 0)
	var st banyan.Status
	var m *banyan.Message
	var err error
	ok := true
	switch verb {
	case "probe":
		st, err = c.Probe(from, tag)
	case "iprobe":
		st, ok, err = c.Iprobe(from, tag)
	case "mprobe":
		m, err = c.Mprobe(from, tag)
	case "improbe":
		m, ok, err = c.Improbe(from, tag)
	}
	switch {
	case err != nil:
		return failure(err)
	case !ok:
		return "none"
	case m != nil:
		s.probed[a["as"]] = m
		st = m.Status()
	}
	return found(st, nil)
}

// manage has the verbs of requests and communicators.
func (s *session) manage(verb, name string, c *banyan.Comm, a words) string {
	r := s.reqs[name]
	switch verb {
	case "wait":
		st, err := r.Wait()
		return outcome(st, r.buf, err)
	case "test":
		st, done, err := r.Test()
		if !done && err == nil {
			return "pending"
		}
		return outcome(st, r.buf, err)
	case "cancel":
		r.Cancel()
	case "dup", "split", "create", "create-group":
		d, err := s.create(verb, c, a)
		if err != nil {
			return failure(err)
		}
		s.comms[a["as"]] = d
	case "uniform", "range":
		if err := choose(verb, name, c); err != nil {
			return failure(err)
		}
	case "handler":
		c.SetErrorHandler(func(_ *banyan.Comm, err error) { s.told = append(s.told, failure(err)) })
	case "told":
		told := s.told
		s.told = nil
		return fmt.Sprint(told)
	case "free":
		if err := s.comms[name].Free(); err != nil {
			return failure(err)
		}
	default:
		return "no such verb"
	}
	return "ok"
}

// create has the verbs that create communicators, of the ranks of a list such as 0,1,3.
func (s *session) create(verb string, c *banyan.Comm, a words) (*banyan.Comm, error) {
	switch verb {
	case "dup":
		return c.Dup()
	case "split":
		return c.Split(a.number("color", 0), 0)
	}
	var ranks []int
	for _, word := range strings.Split(a["of"], ",") {
		rank, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		ranks = append(ranks, rank)
	}
	g, err := c.Group().Include(ranks...)
	if err != nil {
		return nil, err
	}
	if verb == "create" {
		return c.Create(g)
	}
	return c.CreateGroup(g, a.number("tag", 0))
}

// choose has the verbs for settings of a communicator.
func choose(verb, name string, c *banyan.Comm) error {
	if verb == "range" {
		return c.SetErrorRange(map[string]banyan.ErrorRange{
			"local": banyan.ErrorsLocal, "group": banyan.ErrorsGroup, "universe": banyan.ErrorsUniverse,
		}[name])
	}
	return c.SetUniformity(map[string]banyan.Uniformity{
		"nothing": banyan.UniformNothing, "creation": banyan.UniformCreation, "collectives": banyan.UniformCollectives,
	}[name])
}
