package launch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
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

// fleet is what the hosts of a job have in common.
type fleet struct {
	id          string // of the job
	n           int    // ranks of the job
	argv        []string
	dir         string
	env, export []string
	bind        Bind
	onFailure   Policy
	wholeLines  bool // output is passed on by whole lines only
	stdin       bool // rank 0 has an input
	shell       Shell
	proxy       []string      // the program that is the proxy, with its arguments
	timeout     time.Duration // for a host to be ready, and for its ranks to be started

	work   *sync.WaitGroup     // the goroutines of all hosts
	turn   chan struct{}       // bounds the hosts that are being reached
	answer chan answered       // see answered
	lost   chan *remote        // hosts that are lost while the job runs
	print  func(p []byte) bool // writes what a remote shell prints; false: it is given up
	note   func(p []byte)      // the same, without waiting
}

// jobText tells a proxy what to run. Arguments and variables need not be UTF-8,
// which the strings of JSON are.
type jobText struct {
	Job             string
	N, First, Count int
	Argv, Env       [][]byte
	Dir             []byte
	Bind            Bind
	FirstCPU        int
	OnFailure       Policy
	WholeLines      bool
	Stdin           bool
}

// describe gives the text of the job for one host.
func (p *fleet) describe(s share) ([]byte, error) {
	text, err := json.Marshal(jobText{
		Job: p.id, N: p.n, First: s.first, Count: s.count,
		Argv: toBytes(p.argv), Env: toBytes(forwarded(p.env, p.export, s.Host)), Dir: []byte(p.dir),
		Bind: p.bind, FirstCPU: s.FirstCPU, OnFailure: p.onFailure,
		WholeLines: p.wholeLines, Stdin: p.stdin && s.first == 0,
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
