package banyan

import (
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/internal/settings"
)

// set is what holds for a real job: the options, and where they are silent the
// environment and the files.
func (o *options) set(in settings.Surroundings) (*settings.Set, error) {
	s, err := settings.Load(in)
	if err != nil {
		return nil, err
	}
	return s, o.override(s)
}

// override is a value that an option has given.
type override struct {
	given bool
	id    settings.ID
	value int
	name  string
}

// override puts the options into s; the error names the one that is out of
// range.
func (o *options) override(s *settings.Set) error {
	for _, c := range append(o.detect.overrides(), []override{
		{o.eager != 0, settings.Eager, o.eager, "WithEagerLimit"},
		{o.early != 0, settings.Unexpected, o.early, "WithUnexpectedLimit"},
		{o.noGet, settings.KernelCopy, 0, "WithoutKernelCopy"},
		{o.async != asyncOpen, settings.Async, int(o.async) - 1, "WithAsyncProgress"},
		{o.errors != handlingOpen, settings.Errors, int(o.errors-returned) + settings.Return, "WithErrorsFatal"},
	}...) {
		if !c.given {
			continue
		}
		if err := s.Override(c.id, c.value, c.name); err != nil {
			return fmt.Errorf("%w: %w", ErrArgument, err)
		}
	}
	if err := s.Agree(); err != nil {
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return o.plant(s)
}

// tell logs what differs from the defaults, and files that were left aside.
func (o *options) tell(s *settings.Set) {
	if o.logf == nil {
		return
	}
	for _, src := range s.Sources {
		if src.Foreign {
			o.logf("settings: %s %s: run ftbench tune", src.Path, src.State)
		}
	}
	for i, k := range settings.Knobs() {
		if id := settings.ID(i); s.Changed(id) {
			o.logf("settings: %s = %s (%s)", k.Name, k.Format(s.Int(id)), s.Origin(id))
		}
	}
}

// apply takes the values that p2p is given from s.
func (o *options) apply(s *settings.Set) {
	o.eager = max(s.Int(settings.Eager), 0) // auto: 0
	o.early = s.Int(settings.Unexpected)
	o.async = asyncOff
	if s.On(settings.Async) {
		o.async = asyncOn
	}
	o.flat = flatElsewhere
	if s.On(settings.Flat) {
		o.flat = flatHere
	}
	o.pulse = pulseOf(s)
	o.fatal = s.Int(settings.Errors) == settings.Fatal
}

// shmConfig is the configuration of shared memory by s.
func (o *options) shmConfig(s *settings.Set) shm.Config {
	return shm.Config{
		Lines: s.Int(settings.RingLines), BulkBytes: s.Int(settings.RingBytes),
		EagerNear: s.Int(settings.EagerNear), EagerFar: s.Int(settings.EagerFar), EagerReply: s.Int(settings.EagerReply),
		NoGet: !s.On(settings.KernelCopy),
	}
}

// tcpConfig is the configuration of sockets by s.
func (o *options) tcpConfig(s *settings.Set) tcp.Config {
	return tcp.Config{
		Eager: s.Int(settings.TCPEager), Reply: s.Int(settings.TCPReply), Outbox: s.Int(settings.TCPOutbox),
		Heal: time.Duration(s.Int(settings.TCPHeal)) * time.Millisecond,
	}
}

// unlessAuto is a count for the host, nil where it is left to it.
func unlessAuto(v int) *int {
	if v == settings.Auto {
		return nil
	}
	return &v
}
