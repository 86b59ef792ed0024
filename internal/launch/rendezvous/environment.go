package rendezvous

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/pmi"
	"github.com/banyan-hpc/banyan/internal/proc"
)

// Config is where and how the ranks of a job find each other. Rank 0 is the server, the others are
// its clients.
type Config struct {
	Rank, Size int
	Addr       string      // host:port
	Nodes      pmi.Mapping // empty: unknown

	key      *[SecretLen]byte // proved by both sides; nil: no proof
	token    string           // the name of the run, "" for none
	timeout  time.Duration    // for a client to find the server, and for all to join
	agent    bool             // torchrun's agent has a server of its own at Addr
	resolver *net.Resolver    // nil: the machine's
}

// FromEnvironment reads RANK, WORLD_SIZE and the other variables of the package comment. It reports
// false when the first two do not name one of several processes.
func FromEnvironment(env pmi.Lookup) (*Config, bool, error) {
	rank, hasRank := env("RANK")
	size, hasSize := env("WORLD_SIZE")
	n, _ := strconv.Atoi(rank)
	switch {
	case !hasSize && n <= 0, !hasRank && size == "1":
		return nil, false, nil // RANK alone is a name that others use too
	case !hasSize:
		return nil, false, pmi.EnvironmentError("RANK=%s says this is one of several processes, "+
			"but WORLD_SIZE is not set: set both, or unset RANK to run alone", rank)
	case !hasRank:
		return nil, false, pmi.EnvironmentError("WORLD_SIZE=%s says this is one of several processes, "+
			"but neither RANK nor PMI_FD is set: set RANK, start with ftbench run, mpiexec or srun --mpi=pmi2, "+
			"or unset WORLD_SIZE to run alone", size)
	}
	c := &Config{}
	var err error
	if c.Size, err = pmi.Number("WORLD_SIZE", size, 1, proc.MaxIDs); err != nil {
		return nil, false, err
	}
	if c.Rank, err = pmi.Number("RANK", rank, 0, proc.MaxIDs-1); err != nil {
		return nil, false, err
	}
	if c.Rank >= c.Size {
		return nil, false, pmi.EnvironmentError("RANK=%d is not below WORLD_SIZE=%d", c.Rank, c.Size)
	}
	if c.Size == 1 {
		return nil, false, nil
	}
	if err := c.read(env); err != nil {
		return nil, false, err
	}
	return c, true, nil
}

// read reads the other variables.
func (c *Config) read(env pmi.Lookup) error {
	port, ok := env("MASTER_PORT")
	if !ok {
		return pmi.EnvironmentError("RANK and WORLD_SIZE are set but MASTER_PORT is not: " +
			"give all ranks the number of a TCP port that is free where rank 0 runs")
	}
	if _, err := pmi.Number("MASTER_PORT", port, 1, 65535); err != nil {
		return err
	}
	host, err := masterAddr(env)
	if err != nil {
		return err
	}
	c.Addr = net.JoinHostPort(host, port)
	if id, _ := env("TORCHELASTIC_RUN_ID"); id != "" {
		sum := sha256.Sum256([]byte(id))
		c.token = hex.EncodeToString(sum[:8]) // the name may have blanks and any length
	}
	agent, _ := env("TORCHELASTIC_USE_AGENT_STORE")
	c.agent = agent == "True"
	text, _ := env(pmi.InitTimeoutEnv)
	if c.timeout, err = pmi.ParseInitTimeout(text); err != nil {
		return err
	}
	return c.readNodes(env)
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
		return "", pmi.EnvironmentError(
			"MASTER_ADDR=%s is neither a name nor an address; the port goes into MASTER_PORT", addr)
	}
	return bare, nil
}

// readNodes sets Nodes from LOCAL_RANK and LOCAL_WORLD_SIZE. It stays empty where these are missing
// or do not fit the usual order: as many ranks on each node, one node after the other.
func (c *Config) readNodes(env pmi.Lookup) error {
	rank, ok1 := env("LOCAL_RANK")
	size, ok2 := env("LOCAL_WORLD_SIZE")
	if !ok1 || !ok2 {
		return nil
	}
	n, err := pmi.Number("LOCAL_WORLD_SIZE", size, 1, c.Size)
	if err != nil {
		return err
	}
	r, err := pmi.Number("LOCAL_RANK", rank, 0, n-1)
	if err == nil && c.Size%n == 0 && c.Rank%n == r {
		c.Nodes = pmi.Nodes(c.Size/n, n)
	}
	return err
}
