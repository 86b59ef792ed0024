package launch

import (
	"fmt"
	"strconv"
)

// What a rank may publish, and the maxima that it is told. The latter are
// Hydra's.
const (
	kvsNameMax   = 256
	keyLenMax    = 64
	valLenMax    = 1024
	kvBytesMax   = 1 << 20 // keys and values of one rank
	kvEntriesMax = 8192    // of one rank
)

// outcome is what is to be done about a request.
type outcome struct {
	reply  string   // to be sent; "" for none
	wait   *barrier // to be waited for: its result is the reply
	abort  bool     // the rank asks for the end of the job, with code and text
	code   int
	text   string
	finish bool // nothing more comes from this rank
}

// handle serves one request. An error means that the rank does not speak PMI-1:
// it is to be cut off.
func (s *server) handle(rank int, m message) (outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.peers[rank]
	if m.cmd == "init" {
		return s.attach(p, m)
	}
	if p.phase != attached {
		return outcome{}, fmt.Errorf("cmd=%s outside of init and finalize", excerpt(m.cmd))
	}
	switch m.cmd {
	case "get_maxes":
		return reply("maxes", "kvsname_max", strconv.Itoa(kvsNameMax),
			"keylen_max", strconv.Itoa(keyLenMax), "vallen_max", strconv.Itoa(valLenMax))
	case "get_appnum":
		return reply("appnum", "appnum", "0")
	case "get_my_kvsname":
		return reply("my_kvsname", "kvsname", s.id)
	case "get_universe_size":
		return reply("universe_size", "size", strconv.Itoa(len(s.peers)))
	case "put":
		return s.put(p, m)
	case "get":
		return s.get(m)
	case "barrier_in":
		return s.enter(p)
	case "finalize":
		s.leave(p, departed, "")
		return outcome{reply: encode("finalize_ack", "rc", "0"), finish: true}, nil
	case "abort":
		code, err := m.number("exitcode")
		return outcome{abort: true, code: code, text: m.get("message")}, err
	}
	return unsupported(m)
}

func reply(cmd string, kv ...string) (outcome, error) {
	return outcome{reply: encode(cmd, append([]string{"rc", "0"}, kv...)...)}, nil
}

func refuse(cmd, why string) (outcome, error) {
	return outcome{reply: encode(cmd, "rc", "-1", "msg", why)}, nil
}

// unsupported answers the parts of PMI-1 that are not built: other key-value
// spaces, names, spawning.
func unsupported(m message) (outcome, error) {
	switch m.cmd {
	case "create_kvs":
		return refuse("newkvs", "one_key-value_space_only")
	case "destroy_kvs":
		return refuse("kvs_destroyed", "one_key-value_space_only")
	case "getbyidx":
		return refuse("getbyidx_results", "not_supported")
	case "publish_name", "unpublish_name", "lookup_name":
		verb := m.cmd[:len(m.cmd)-len("_name")]
		return outcome{reply: encode(verb+"_result", "rc", "-1", "info", "not_supported", "msg", "not_supported")}, nil
	case "spawn":
		if m.get("spawnssofar") != m.get("totspawns") {
			return outcome{}, nil // the last part of the request is answered
		}
		return refuse("spawn_result", "spawning_is_not_supported")
	}
	return outcome{}, fmt.Errorf("cmd=%s is no request of PMI-1", excerpt(m.cmd))
}

func (s *server) put(p *peer, m message) (outcome, error) {
	key, value := m.get("key"), m.get("value")
	_, taken := s.kv[key]
	switch {
	case m.get("kvsname") != s.id:
		return refuse("put_result", "unknown_kvsname")
	case key == "" || len(key) > keyLenMax || len(value) > valLenMax:
		return refuse("put_result", "key_or_value_too_long")
	case taken:
		return refuse("put_result", "duplicate_key")
	case p.entries == kvEntriesMax || p.bytes+len(key)+len(value) > kvBytesMax:
		return refuse("put_result", "this_rank_has_published_too_much")
	}
	s.kv[key] = value
	p.entries++
	p.bytes += len(key) + len(value)
	return reply("put_result", "msg", "success")
}

func (s *server) get(m message) (outcome, error) {
	value, ok := s.kv[m.get("key")]
	if !ok || m.get("kvsname") != s.id {
		return refuse("get_result", "key_not_found")
	}
	return reply("get_result", "msg", "success", "value", value)
}
