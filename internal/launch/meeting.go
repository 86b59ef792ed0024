package launch

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

	"github.com/banyan-hpc/banyan/internal/proc"
)

// meeting is where and how the ranks of a job find each other that were
// started one by one, without launcher: rank 0 is the host and serves PMI-1 at
// addr, the others are its guests.
type meeting struct {
	rank, size int
	addr       string           // host:port
	key        *[SecretLen]byte // what both sides prove to know; nil: nothing
	token      string           // what the environment says about the job, "" for nothing
	nodes      mapping
	timeout    time.Duration // for a guest to find the host, and for all to join
	agent      bool          // torchrun's agent has a server of its own at addr

	resolver *net.Resolver // nil: the machine's
}

// meetingPlace reads what torchrun sets: RANK, WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT, LOCAL_RANK, LOCAL_WORLD_SIZE. It reports false when the first
// two do not say that this is one of several processes.
func meetingPlace(env environment) (*meeting, bool, error) {
	rank, hasRank := env("RANK")
	size, hasSize := env("WORLD_SIZE")
	switch {
	case !hasSize && (!hasRank || !aboveZero(rank)), !hasRank && size == "1":
		return nil, false, nil // RANK alone is a name that others use too
	case !hasSize:
		return nil, false, fmt.Errorf("launch: %w: RANK=%s says this is one of several processes, but WORLD_SIZE is not set: set both, or unset RANK to run alone", ErrEnvironment, rank)
	case !hasRank:
		return nil, false, fmt.Errorf("launch: %w: WORLD_SIZE=%s says this is one of several processes, but neither RANK nor PMI_FD is set: set RANK, start with ftbench run, mpiexec or srun --mpi=pmi2, or unset WORLD_SIZE to run alone", ErrEnvironment, size)
	}
	p := &meeting{}
	var err error
	if p.size, err = variable("WORLD_SIZE", size, 1, proc.MaxIDs); err != nil {
		return nil, false, err
	}
	if p.rank, err = variable("RANK", rank, 0, proc.MaxIDs-1); err != nil {
		return nil, false, err
	}
	if p.rank >= p.size {
		return nil, false, fmt.Errorf("launch: %w: RANK=%d is not below WORLD_SIZE=%d", ErrEnvironment, p.rank, p.size)
	}
	if p.size == 1 {
		return nil, false, nil
	}
	if err := p.find(env); err != nil {
		return nil, false, err
	}
	return p, true, nil
}

func aboveZero(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n > 0
}

func (m *meeting) find(env environment) error {
	port, ok := env("MASTER_PORT")
	if !ok {
		return fmt.Errorf("launch: %w: RANK and WORLD_SIZE are set but MASTER_PORT is not: give all ranks the number of a TCP port that is free where rank 0 runs", ErrEnvironment)
	}
	if _, err := variable("MASTER_PORT", port, 1, 65535); err != nil {
		return err
	}
	host, err := masterAddr(env)
	if err != nil {
		return err
	}
	m.addr = net.JoinHostPort(host, port)
	if id, _ := env("TORCHELASTIC_RUN_ID"); id != "" {
		sum := sha256.Sum256([]byte(id))
		m.token = hex.EncodeToString(sum[:8]) // the name may have blanks and any length
	}
	agent, _ := env("TORCHELASTIC_USE_AGENT_STORE")
	m.agent = agent == "True"
	text, _ := env(InitTimeoutEnv)
	if m.timeout, err = initTimeout(text); err != nil {
		return err
	}
	m.nodes, err = localNodes(env, m)
	return err
}

// masterAddr returns a name, or an address of either family without brackets.
func masterAddr(env environment) (string, error) {
	addr, _ := env("MASTER_ADDR")
	if addr == "" {
		return "127.0.0.1", nil
	}
	bare := addr
	if inner, ok := strings.CutPrefix(addr, "["); ok {
		bare, _ = strings.CutSuffix(inner, "]")
	}
	if _, err := netip.ParseAddr(bare); err != nil && strings.ContainsAny(addr, ":[]/") {
		return "", fmt.Errorf("launch: %w: MASTER_ADDR=%s is neither a name nor an address; the port goes into MASTER_PORT", ErrEnvironment, addr)
	}
	return bare, nil
}

// localNodes tells which ranks share a node, from LOCAL_RANK and
// LOCAL_WORLD_SIZE. It is unknown where these are missing, or do not fit the
// usual order: as many ranks on each node, one node after the other.
func localNodes(env environment, p *meeting) (mapping, error) {
	rank, ok1 := env("LOCAL_RANK")
	size, ok2 := env("LOCAL_WORLD_SIZE")
	if !ok1 || !ok2 {
		return nil, nil
	}
	n, err := variable("LOCAL_WORLD_SIZE", size, 1, p.size)
	if err != nil {
		return nil, err
	}
	r, err := variable("LOCAL_RANK", rank, 0, n-1)
	if err != nil {
		return nil, err
	}
	if p.size%n != 0 || p.rank%n != r {
		return nil, nil
	}
	return mapping{{0, p.size / n, n}}, nil
}

// meet connects this rank to the others. conn is the rank's connection to rank 0, which serves PMI-1 on it. id is the job's
// name as rank 0 has proved it, "" without a secret. h is the server, in rank 0.
func (m *meeting) meet(ctx context.Context, secret *seed) (conn connection, id string, h *host, err error) {
	if secret != nil {
		key := secret.derive("meeting")
		m.key = &key
	}
	if m.rank == 0 {
		h, conn, err = newHost(ctx, m)
	} else {
		conn, id, err = visit(ctx, m)
	}
	return conn, id, h, err
}

// limit bounds the time in which rank 0 has to answer once it has accepted this rank.
func (m *meeting) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, m.timeout, fmt.Errorf("rank 0 at %s has not answered within %v (%s): %w",
		m.addr, m.timeout, InitTimeoutEnv, context.DeadlineExceeded))
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
	return encode("hello", "banyan", helloVersion,
		"rank", strconv.Itoa(h.rank), "size", strconv.Itoa(h.size), "token", h.token, "nonce", h.nonce)
}

// errStranger: what connected is no rank of any Banyan job.
var errStranger = errors.New("not a rank")

func parseHello(line string) (hello, error) {
	m, err := parse(line)
	if err != nil || m.cmd != "hello" || m.get("banyan") == "" {
		return hello{}, errStranger
	}
	if v := m.get("banyan"); v != helloVersion {
		return hello{}, fmt.Errorf("version %s of the protocol where rank 0 has %s: start all ranks from one build", excerpt(v), helloVersion)
	}
	var h hello
	if h.rank, err = m.number("rank"); err != nil {
		return h, err
	}
	if h.size, err = m.number("size"); err != nil {
		return h, err
	}
	h.token, h.nonce = m.get("token"), m.get("nonce")
	if h.nonce != "" && !isNonce(h.nonce) {
		return h, errStranger
	}
	return h, nil
}

// answerMax bounds the text of a refusal, in bytes: in the host's error it
// shares a line with the name of a missing rank.
const answerMax = 200

// welcome is what a host says of a guest in the end: who it has proved to be, or
// why the guest is not wanted.
type welcome struct {
	why     error  // nil: the guest is taken in
	id, mac string // the job and the host's proof; "" where there is no secret
}

func (w welcome) line() string {
	if w.why == nil {
		return encode("welcome", "rc", "0", "job", w.id, "mac", w.mac)
	}
	text := w.why.Error()
	return encode("welcome", "rc", "1", "why", base64.RawURLEncoding.EncodeToString([]byte(text[:min(len(text), answerMax)])))
}

// parseWelcome reports false for what no host says.
func parseWelcome(line string) (w welcome, ok bool) {
	m, err := parse(line)
	if err != nil || m.cmd != "welcome" || m.get("rc") == "" {
		return w, false
	}
	if !m.failed() {
		return welcome{id: m.get("job"), mac: m.get("mac")}, true
	}
	text, err := base64.RawURLEncoding.DecodeString(m.get("why"))
	if err != nil || len(text) > answerMax {
		return w, false
	}
	return welcome{why: errors.New(strings.Map(printable, string(text)))}, true
}

// printable keeps whoever answers in rank 0's place from steering the terminal.
func printable(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 {
		return '?'
	}
	return r
}
