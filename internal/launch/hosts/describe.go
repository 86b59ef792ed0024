package hosts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan/internal/launch/spawn"
)

// forwarded are the variables of env that ranks on a host get.
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

// nodeEnv names the variable that says on which node a process runs, for
// network namespaces, which share one machine.
const nodeEnv = "BANYAN_NODE"

// Config is what the hosts of a job have in common.
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
	Answers chan Answer         // see answered
	Lost    chan *Remote        // hosts that are lost while the job runs
	Print   func(p []byte) bool // writes what a remote shell prints; false: it is given up
	Note    func(p []byte)      // the same, without waiting
}

// jobText tells a proxy what to run. Arguments and variables need not be UTF-8,
// which the strings of JSON are.
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

// describe gives the text of the job for one host.
func (p *Config) describe(s Share) ([]byte, error) {
	text, err := json.Marshal(jobText{
		Job: p.ID, N: p.N, First: s.first, Count: s.Count,
		Argv: toBytes(p.Argv), Env: toBytes(forwarded(p.Env, p.Export, s.Host)), Dir: []byte(p.Dir),
		Bind: p.Bind, FirstCPU: s.FirstCPU, OnFailure: p.OnFailure,
		WholeLines: p.WholeLines, Stdin: p.Stdin && s.first == 0,
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
