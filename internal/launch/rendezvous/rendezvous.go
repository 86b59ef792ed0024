package rendezvous

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Config is where and how the ranks of a job find each other that were
// started one by one, without launcher: rank 0 is the host and serves PMI-1 at
// addr, the others are its guests.
type Config struct {
	Rank, Size int
	Addr       string           // host:port
	key        *[SecretLen]byte // what both sides prove to know; nil: nothing
	token      string           // what the environment says about the job, "" for nothing
	Nodes      pmi.Mapping
	timeout    time.Duration // for a guest to find the host, and for all to join
	agent      bool          // torchrun's agent has a server of its own at addr

	resolver *net.Resolver // nil: the machine's
}

// FromEnvironment reads what torchrun sets: RANK, WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT, LOCAL_RANK, LOCAL_WORLD_SIZE. It reports false when the first
// two do not say that this is one of several processes.
func FromEnvironment(env pmi.Lookup) (*Config, bool, error) {
	rank, hasRank := env("RANK")
	size, hasSize := env("WORLD_SIZE")
	switch {
	case !hasSize && (!hasRank || !aboveZero(rank)), !hasRank && size == "1":
		return nil, false, nil // RANK alone is a name that others use too
	case !hasSize:
		return nil, false, fmt.Errorf("launch: %w: RANK=%s says this is one of several processes, but WORLD_SIZE is not set: set both, or unset RANK to run alone", pmi.ErrEnvironment, rank)
	case !hasRank:
		return nil, false, fmt.Errorf("launch: %w: WORLD_SIZE=%s says this is one of several processes, but neither RANK nor PMI_FD is set: set RANK, start with ftbench run, mpiexec or srun --mpi=pmi2, or unset WORLD_SIZE to run alone", pmi.ErrEnvironment, size)
	}
	p := &Config{}
	var err error
	if p.Size, err = pmi.Number("WORLD_SIZE", size, 1, proc.MaxIDs); err != nil {
		return nil, false, err
	}
	if p.Rank, err = pmi.Number("RANK", rank, 0, proc.MaxIDs-1); err != nil {
		return nil, false, err
	}
	if p.Rank >= p.Size {
		return nil, false, fmt.Errorf("launch: %w: RANK=%d is not below WORLD_SIZE=%d", pmi.ErrEnvironment, p.Rank, p.Size)
	}
	if p.Size == 1 {
		return nil, false, nil
	}
	if err := p.readPort(env); err != nil {
		return nil, false, err
	}
	return p, true, nil
}

func aboveZero(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n > 0
}

func (m *Config) readPort(env pmi.Lookup) error {
	port, ok := env("MASTER_PORT")
	if !ok {
		return fmt.Errorf("launch: %w: RANK and WORLD_SIZE are set but MASTER_PORT is not: give all ranks the number of a TCP port that is free where rank 0 runs", pmi.ErrEnvironment)
	}
	if _, err := pmi.Number("MASTER_PORT", port, 1, 65535); err != nil {
		return err
	}
	host, err := masterAddr(env)
	if err != nil {
		return err
	}
	m.Addr = net.JoinHostPort(host, port)
	if id, _ := env("TORCHELASTIC_RUN_ID"); id != "" {
		sum := sha256.Sum256([]byte(id))
		m.token = hex.EncodeToString(sum[:8]) // the name may have blanks and any length
	}
	agent, _ := env("TORCHELASTIC_USE_AGENT_STORE")
	m.agent = agent == "True"
	text, _ := env(pmi.InitTimeoutEnv)
	if m.timeout, err = pmi.ParseInitTimeout(text); err != nil {
		return err
	}
	m.Nodes, err = localNodes(env, m)
	return err
}

// masterAddr returns a name, or an address of either family without brackets.
func masterAddr(env pmi.Lookup) (string, error) {
	addr, _ := env("MASTER_ADDR")
	if addr == "" {
		return "127.0.0.1", nil
	}
	bare := addr
	if inner, ok := strings.CutPrefix(addr, "["); ok {
		bare, _ = strings.CutSuffix(inner, "]")
	}
	if _, err := netip.ParseAddr(bare); err != nil && strings.ContainsAny(addr, ":[]/") {
		return "", fmt.Errorf("launch: %w: MASTER_ADDR=%s is neither a name nor an address; the port goes into MASTER_PORT", pmi.ErrEnvironment, addr)
	}
	return bare, nil
}

// localNodes tells which ranks share a node, from LOCAL_RANK and
// LOCAL_WORLD_SIZE. It is unknown where these are missing, or do not fit the
// usual order: as many ranks on each node, one node after the other.
func localNodes(env pmi.Lookup, p *Config) (pmi.Mapping, error) {
	rank, ok1 := env("LOCAL_RANK")
	size, ok2 := env("LOCAL_WORLD_SIZE")
	if !ok1 || !ok2 {
		return nil, nil
	}
	n, err := pmi.Number("LOCAL_WORLD_SIZE", size, 1, p.Size)
	if err != nil {
		return nil, err
	}
	r, err := pmi.Number("LOCAL_RANK", rank, 0, n-1)
	if err != nil {
		return nil, err
	}
	if p.Size%n != 0 || p.Rank%n != r {
		return nil, nil
	}
	return pmi.Nodes(p.Size/n, n), nil
}

// Connect connects this rank to the others. conn is the rank's connection to rank 0, which serves PMI-1 on it. id is the job's
// name as rank 0 has proved it, "" without a secret. h is the server, in rank 0.
func (m *Config) Connect(ctx context.Context, secret *Secret) (conn pmi.Conn, id string, h *Server, err error) {
	if secret != nil {
		key := secret.derive("meeting")
		m.key = &key
	}
	if m.Rank == 0 {
		h, conn, err = newServer(ctx, m)
	} else {
		conn, id, err = dial(ctx, m)
	}
	return conn, id, h, err
}

// Limit bounds the time in which rank 0 has to answer once it has accepted this rank.
func (m *Config) Limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, m.timeout, fmt.Errorf("rank 0 at %s has not answered within %v (%s): %w",
		m.Addr, m.timeout, pmi.InitTimeoutEnv, context.DeadlineExceeded))
}

// hello is the first line that a guest writes. It tells a rank of this job from
// whatever else may connect to the port, and from ranks that were started with
// other variables.
type hello struct {
	rank, size int
	token      string
	nonce      string // "" where the guest has no secret
}

const (
	// helloMax bounds each line of a meeting, in bytes.
	helloMax = 512
	// helloVersion changes with what guests and hosts say to each other.
	helloVersion = "2"
)

func (h hello) line() string {
	return pmi.Encode("hello", "banyan", helloVersion,
		"rank", strconv.Itoa(h.rank), "size", strconv.Itoa(h.size), "token", h.token, "nonce", h.nonce)
}

// errStranger: what connected is no rank of any Banyan job.
var errNotRank = errors.New("not a rank")

func parseHello(line string) (hello, error) {
	m, err := pmi.Parse(line)
	if err != nil || m.Cmd != "hello" || m.Get("banyan") == "" {
		return hello{}, errNotRank
	}
	if v := m.Get("banyan"); v != helloVersion {
		return hello{}, fmt.Errorf("version %s of the protocol where rank 0 has %s: start all ranks from one build", pmi.Excerpt(v), helloVersion)
	}
	var h hello
	if h.rank, err = m.Number("rank"); err != nil {
		return h, err
	}
	if h.size, err = m.Number("size"); err != nil {
		return h, err
	}
	h.token, h.nonce = m.Get("token"), m.Get("nonce")
	if h.nonce != "" && !isNonce(h.nonce) {
		return h, errNotRank
	}
	return h, nil
}

// answerMax bounds the text of a refusal, in bytes: in the host's error it
// shares a line with the name of a missing rank.
const answerMax = 200

// verdict is what a host says of a guest in the end: who it has proved to be, or
// refusal the guest is not wanted.
type verdict struct {
	refusal error  // nil: the guest is taken in
	id, mac string // the job and the host's proof; "" where there is no secret
}

func (w verdict) line() string {
	if w.refusal == nil {
		return pmi.Encode("welcome", "rc", "0", "job", w.id, "mac", w.mac)
	}
	text := w.refusal.Error()
	return pmi.Encode("welcome", "rc", "1", "why", base64.RawURLEncoding.EncodeToString([]byte(text[:min(len(text), answerMax)])))
}

// parseVerdict reports false for what no host says.
func parseVerdict(line string) (w verdict, ok bool) {
	m, err := pmi.Parse(line)
	if err != nil || m.Cmd != "welcome" || m.Get("rc") == "" {
		return w, false
	}
	if !m.Failed() {
		return verdict{id: m.Get("job"), mac: m.Get("mac")}, true
	}
	text, err := base64.RawURLEncoding.DecodeString(m.Get("why"))
	if err != nil || len(text) > answerMax {
		return w, false
	}
	return verdict{refusal: errors.New(strings.Map(printable, string(text)))}, true
}

// printable keeps whoever answers in rank 0's place from steering the terminal.
func printable(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 {
		return '?'
	}
	return r
}
