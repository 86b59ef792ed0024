package pmi

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The maxima that are sent to a rank, which are Hydra's, and the bounds of its published values.
const (
	kvsNameMax   = 256
	KeyMax       = 64
	ValueMax     = 1024
	kvBytesMax   = 1 << 20 // keys and values of one rank
	kvEntriesMax = 8192    // of one rank
)

// outcome is how to answer a request.
type outcome struct {
	reply  string   // "" for none
	wait   *barrier // its result is the reply
	abort  bool     // the rank asks for the end of the job, with code and text
	code   int
	text   string
	finish bool // this was the last request
}

// handle serves one request. An error means that the rank does not speak PMI-1 and must be cut off.
func (s *Server) handle(rank int, m Message) (outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.peers[rank]
	if m.Cmd == "init" {
		return s.attach(p, m)
	}
	if p.phase == lostPhase {
		return outcome{}, fmt.Errorf("cmd=%s after it was given up: %s", Excerpt(m.Cmd), p.why)
	}
	if p.phase != attached {
		return outcome{}, fmt.Errorf("cmd=%s outside of init and finalize", Excerpt(m.Cmd))
	}
	switch m.Cmd {
	case "get_maxes":
		return reply("maxes", "kvsname_max", strconv.Itoa(kvsNameMax),
			"keylen_max", strconv.Itoa(KeyMax), "vallen_max", strconv.Itoa(ValueMax))
	case "get_appnum":
		return reply("appnum", "appnum", "0")
	case "get_my_kvsname":
		return reply("my_kvsname", "kvsname", s.ID)
	case "get_universe_size":
		return reply("universe_size", "size", strconv.Itoa(len(s.peers)))
	case "put":
		return s.put(p, m)
	case "get":
		return s.get(m)
	case RangeRequest:
		return s.getRange(m)
	case "barrier_in":
		return s.enter(p)
	case "finalize":
		s.leave(p, departed, "")
		return outcome{reply: Encode("finalize_ack", "rc", "0"), finish: true}, nil
	case "abort":
		code, err := m.Number("exitcode")
		return outcome{abort: true, code: code, text: m.Get("message")}, err
	}
	return unsupported(m)
}

func reply(cmd string, kv ...string) (outcome, error) {
	return outcome{reply: Encode(cmd, append([]string{"rc", "0"}, kv...)...)}, nil
}

func refuse(cmd, why string) (outcome, error) {
	return outcome{reply: Encode(cmd, "rc", "-1", "msg", why)}, nil
}

// unsupported refuses the parts of PMI-1 that do not exist here: other key-value spaces, names,
// spawning.
func unsupported(m Message) (outcome, error) {
	switch m.Cmd {
	case "create_kvs":
		return refuse("newkvs", "one_key-value_space_only")
	case "destroy_kvs":
		return refuse("kvs_destroyed", "one_key-value_space_only")
	case "getbyidx":
		return refuse("getbyidx_results", "not_supported")
	case "publish_name", "unpublish_name", "lookup_name":
		verb := m.Cmd[:len(m.Cmd)-len("_name")]
		return outcome{reply: Encode(verb+"_result", "rc", "-1", "info", "not_supported", "msg", "not_supported")}, nil
	case "spawn":
		if m.Get("spawnssofar") != m.Get("totspawns") {
			return outcome{}, nil // the last part of the request is answered
		}
		return refuse("spawn_result", "spawning_is_not_supported")
	}
	return outcome{}, fmt.Errorf("cmd=%s is no request of PMI-1", Excerpt(m.Cmd))
}

func (s *Server) put(p *peer, m Message) (outcome, error) {
	key, value := m.Get("key"), m.Get("value")
	_, taken := s.kv[key]
	switch {
	case m.Get("kvsname") != s.ID:
		return refuse("put_result", "unknown_kvsname")
	case key == "" || len(key) > KeyMax || len(value) > ValueMax:
		return refuse("put_result", "key_or_value_too_long")
	case taken:
		return refuse("put_result", "duplicate_key")
	case p.entries == kvEntriesMax || p.bytes+len(key)+len(value) > kvBytesMax:
		return refuse("put_result", "this_rank_has_published_too_much")
	}
	s.kv[key] = value
	p.entries++
	p.bytes += len(key) + len(value)
	s.lose(key)
	return reply("put_result", "msg", "success")
}

// lostPrefix begins the keys of LostKey.
const lostPrefix = "banyan-lost-"

// LostKey is the key that a rank, by, puts with any value when another rank counts as failed there although its process may
// run: it is stopped, or on a machine that cannot be reached. After GiveUpGrace barriers end without that rank. Servers of
// other versions store the key and nothing else.
func LostKey(rank, by int) string { return fmt.Sprintf("%s%d-%d", lostPrefix, rank, by) }

// GiveUpGrace is for a rank that counts as failed and is alive: as long as the others wait in a barrier they notify
// it, and it ends itself.
const GiveUpGrace = 5 * time.Second

// lose takes a rank out for which a key stands, after some time.
func (s *Server) lose(key string) {
	text, found := strings.CutPrefix(key, lostPrefix)
	text, _, _ = strings.Cut(text, "-")
	rank, err := strconv.Atoi(text)
	if !found || err != nil || rank < 0 || rank >= len(s.peers) || s.peers[rank].givenUp {
		return
	}
	s.peers[rank].givenUp = true
	s.graces = append(s.graces, time.AfterFunc(s.grace, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p := &s.peers[rank]; p.phase == attached {
			s.leave(p, lostPhase, s.on(rank)+"counts as failed at the others")
		}
	}))
}

// GivenUp reports whether another rank has put the LostKey of a rank.
func (s *Server) GivenUp(rank int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers[rank].givenUp
}

func (s *Server) get(m Message) (outcome, error) {
	value, ok := s.kv[m.Get("key")]
	if !ok || m.Get("kvsname") != s.ID {
		return refuse("get_result", "key_not_found")
	}
	return reply("get_result", "msg", "success", "value", value)
}

// RangeRequest asks for the values of many ranks at once: those of the keys that consist of prefix
// and a number, from first on. Only Banyan's servers know it: they have a value of RangeKey.
const (
	RangeRequest = "banyan_getrange"
	RangeReply   = "banyan_range"
	RangeKey     = "banyan_range"
)

// getRange replies with the values that one line holds, separated by commas; nothing stands for a
// key without value.
func (s *Server) getRange(m Message) (outcome, error) {
	first, err := m.Number("first")
	if err != nil {
		return outcome{}, err
	}
	count, err := m.Number("count")
	if err != nil {
		return outcome{}, err
	}
	if m.Get("kvsname") != s.ID || first < 0 || count < 1 || count > len(s.peers)-first {
		return refuse(RangeReply, "no_such_range")
	}
	const room = ReplyMax - 256
	var values strings.Builder
	for rank := first; rank < first+count; rank++ {
		value := s.kv[m.Get("prefix")+strconv.Itoa(rank)]
		if values.Len()+1+len(value) > room {
			break
		}
		if rank > first {
			values.WriteByte(',')
		}
		values.WriteString(value)
	}
	return reply(RangeReply, "values", values.String())
}
