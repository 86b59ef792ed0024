package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/banyan-hpc/banyan/internal/netns"
)

// netFault is a disturbance of the network between namespaces.
type netFault struct {
	text    string
	kind    byte // '-', '>', '/', or 0 for a cable
	a, b    int  // b is a where there is one host
	at, dur time.Duration
}

// String formats it as it was written.
func (f netFault) String() string { return f.text }

// UnmarshalText parses WHAT@AT[+FOR].
func (f *netFault) UnmarshalText(text []byte) error {
	f.text = string(text)
	wrong := func(why string) error {
		return fmt.Errorf("%q: %s; want WHAT@AT[+FOR], as 0-1@2s+500ms, 0>1@2s, 1@2s+1s or 0/1@2s", f.text, why)
	}
	what, when, ok := strings.Cut(f.text, "@")
	if !ok {
		return wrong("the time is missing")
	}
	at, dur, lasts := strings.Cut(when, "+")
	var err error
	if f.at, err = time.ParseDuration(at); err != nil || f.at < 0 {
		return wrong(strconv.Quote(at) + " is no time")
	}
	if lasts {
		if f.dur, err = time.ParseDuration(dur); err != nil || f.dur <= 0 {
			return wrong(strconv.Quote(dur) + " is no time")
		}
	}
	a, b := what, what
	if i := strings.IndexAny(what, "->/"); i >= 0 {
		f.kind, a, b = what[i], what[:i], what[i+1:]
	}
	if f.kind == '/' && lasts {
		return wrong("connections that are reset are reset once")
	}
	if f.a, err = strconv.Atoi(a); err != nil || f.a < 0 {
		return wrong(strconv.Quote(a) + " is no host")
	}
	if f.b, err = strconv.Atoi(b); err != nil || f.b < 0 {
		return wrong(strconv.Quote(b) + " is no host")
	}
	if f.kind != 0 && f.a == f.b {
		return wrong("that is one host")
	}
	return nil
}

// begin disturbs the network, end heals it.
func (f netFault) begin(net *netns.Net) error {
	switch f.kind {
	case '-':
		return net.Cut(f.a, f.b)
	case '>':
		return net.CutOneWay(f.a, f.b)
	case '/':
		_, err := net.KillConnectionsTo(f.a, f.b)
		return err
	}
	return net.LinkDown(f.a)
}

func (f netFault) end(net *netns.Net) error {
	switch f.kind {
	case '-':
		return net.Mend(f.a, f.b)
	case '>':
		return net.MendOneWay(f.a, f.b)
	}
	return net.LinkUp(f.a)
}

// describe names the disturbance.
func (f netFault) describe() string {
	switch f.kind {
	case '-':
		return fmt.Sprintf("nothing passes between hosts %d and %d", f.a, f.b)
	case '>':
		return fmt.Sprintf("nothing passes from host %d to host %d", f.a, f.b)
	case '/':
		return fmt.Sprintf("the connections between hosts %d and %d are reset", f.a, f.b)
	}
	return fmt.Sprintf("the cable of host %d is pulled", f.a)
}

// disturb applies every fault in its time, and logs those that it has applied. The returned function ends that, and returns the
// errors.
func disturb(net *netns.Net, faults []netFault, log io.Writer) (stop func() error) {
	var mu sync.Mutex
	var wrong []error
	done := make(chan struct{})
	var all sync.WaitGroup
	act := func(f netFault, do func(*netns.Net) error, what string) {
		mu.Lock()
		defer mu.Unlock()
		if err := do(net); err != nil {
			wrong = append(wrong, fmt.Errorf("--netns-fault=%v: %w", f, err))
			return
		}
		fmt.Fprintf(log, "banyan: %s\n", what)
	}
	start := time.Now()
	wait := func(until time.Duration) bool {
		select {
		case <-done:
			return false
		case <-time.After(time.Until(start.Add(until))):
			return true
		}
	}
	for _, f := range faults {
		all.Go(func() {
			if !wait(f.at) {
				return
			}
			act(f, f.begin, fmt.Sprintf("%v: %s", f.at, f.describe()))
			if f.dur > 0 && wait(f.at+f.dur) {
				act(f, f.end, fmt.Sprintf("%v: no more: %s", f.at+f.dur, f.describe()))
			}
		})
	}
	return func() error {
		close(done)
		all.Wait()
		return errors.Join(wrong...)
	}
}
