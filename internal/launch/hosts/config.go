package hosts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/spawn"
	"golang.org/x/sys/unix"
)

// Config is the common configuration of the hosts of a job.
type Config struct {
	ID          string // of the job
	N           int    // ranks of the job
	Argv        []string
	Dir         string
	Env, Export []string
	Bind        spawn.Bind
	OnFailure   spawn.Policy
	WholeLines  bool // output is passed on by whole lines only
	Stdin       bool // rank 0 has an input
	Shell       Shell
	Proxy       []string      // the program that is the proxy, with its arguments
	Timeout     time.Duration // for a host to be ready, and for its ranks to be started

	Work    *sync.WaitGroup     // the goroutines of all hosts
	Turn    chan struct{}       // bounds the hosts that are being reached
	Answers chan<- Answer       // three for each host at most
	Lost    chan<- Loss         // one for each host at most
	Print   func(p []byte) bool // writes the output of a remote shell; false: the output is given up
	Note    func(p []byte)      // the same, without waiting
}

// nodeEnv names the variable that distinguishes network namespaces of one machine.
const nodeEnv = "BANYAN_NODE"

// forwarded are the variables of env that ranks on a host get: those that begin with BANYAN_ or GO,
// and those that export names.
func forwarded(env, export []string, h Host) []string {
	var out []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		named := slices.ContainsFunc(export, func(x string) bool { x, _, _ = strings.Cut(x, "="); return x == name })
		if named || name != nodeEnv && (strings.HasPrefix(name, "BANYAN_") || strings.HasPrefix(name, "GO")) {
			out = append(out, e)
		}
	}
	return append(out, h.Env...)
}

// jobText is the payload of frameJob. Arguments and variables need not be UTF-8, as the strings of
// JSON are.
type jobText struct {
	Job             string
	N, First, Count int
	Argv, Env       [][]byte
	Dir             []byte
	Bind            spawn.Bind
	FirstCPU        int
	OnFailure       spawn.Policy
	WholeLines      bool
	Stdin           bool
}

// startedText and endedText are the payloads of frameStarted and frameEnded.
type startedText struct{ PIDs []int }

type endedText struct {
	PID, Code int
	Signal    unix.Signal
	After     time.Duration
	Stopped   bool
}

// describe returns the job for one host.
func (c *Config) describe(s Share) ([]byte, error) {
	text, err := json.Marshal(jobText{
		Job: c.ID, N: c.N, First: s.first, Count: s.Count,
		Argv: toBytes(c.Argv), Env: toBytes(forwarded(c.Env, c.Export, s.Host)), Dir: []byte(c.Dir),
		Bind: c.Bind, FirstCPU: s.FirstCPU, OnFailure: c.OnFailure,
		WholeLines: c.WholeLines, Stdin: c.Stdin && s.first == 0,
	})
	if err == nil && len(text) > jobMax {
		err = fmt.Errorf("arguments and variables take %d bytes, at most %d can be passed on", len(text), jobMax)
	}
	return text, err
}

func toBytes(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}
