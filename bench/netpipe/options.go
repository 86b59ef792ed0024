package netpipe

import (
	"errors"
	"fmt"
	"time"

	"github.com/banyan-hpc/banyan/bench/budget"
)

// Mode is the direction of the messages.
type Mode int

const (
	// PingPong is one message to and fro.
	PingPong Mode = iota
	// Streaming is rank 0 sending without waiting for answers.
	Streaming
	// Bidirectional is both ranks sending at once.
	Bidirectional
)

var modeNames = [...]string{"ping-pong", "streaming", "bidirectional"}

// String names the mode.
func (m Mode) String() string {
	if m < 0 || int(m) >= len(modeNames) {
		return fmt.Sprintf("mode %d", int(m))
	}
	return modeNames[m]
}

// MarshalText writes the mode's name into JSON.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Options of a run. Start from [Defaults].
type Options struct {
	// Lower, Upper and Perturbation choose the sizes, in bytes: see [Sizes].
	Lower        int `json:"lower"`
	Upper        int `json:"upper"`
	Perturbation int `json:"perturbation"`
	// Trials per size, of which the best counts.
	Trials int `json:"trials"`
	// TrialTime is how long a trial is to take; ignored if Repeats is set.
	TrialTime time.Duration `json:"trial_time_ns"`
	// Repeats is the number of messages of a trial; 0: as many as TrialTime allows.
	Repeats int  `json:"repeats,omitempty"`
	Mode    Mode `json:"mode"`
	// Cold gives each message memory that is in no cache, at both sides.
	Cold bool `json:"cold,omitempty"`
	// Registered takes memory of [banyan.Alloc].
	Registered bool `json:"registered,omitempty"`
	// Lent sends messages as loans, which the receiver returns unread; with Registered.
	Lent bool `json:"lent,omitempty"`
	// Integrity checks every byte, in a pass of its own.
	Integrity bool `json:"integrity"`
	// Budget bounds the run.
	Budget budget.Budget `json:"-"`
}

// maxSize bounds a message: one or two buffers of it are allocated per process.
const maxSize = 1 << 30

// Limits of the number of messages of a trial. Fewer than three mean nothing; NetPIPE has the same
// bound.
const (
	minRepeats = 3
	maxRepeats = 1 << 28
)

// Defaults are NetPIPE's sizes up to 8 MiB, perturbation of 3 bytes, 3 trials of a quarter of a
// second, ping-pong.
func Defaults() Options {
	return Options{Lower: 1, Upper: 8 << 20, Perturbation: 3, Trials: 3, TrialTime: 250 * time.Millisecond}
}

// Check reports the first invalid option, and the valid values.
func (o *Options) Check() error {
	switch {
	case o.Registered && o.Cold:
		return errors.New("netpipe: registered memory is for one buffer, which caches keep: leave out one of the two")
	case o.Lent && (!o.Registered || o.Mode == Bidirectional || o.Integrity):
		return errors.New("netpipe: loans are of registered memory, one way at a time, and not read: leave out bidirectional and the check of integrity")
	case o.Lower < 1 || o.Upper < o.Lower || o.Upper > maxSize:
		return fmt.Errorf("netpipe: sizes from %d to %d: 1 ≤ lower ≤ upper ≤ %d is needed", o.Lower, o.Upper, maxSize)
	case o.Perturbation < 0 || o.Perturbation > 1<<20:
		return fmt.Errorf("netpipe: a perturbation of %d bytes: 0 to %d are possible", o.Perturbation, 1<<20)
	case o.Trials < 1 || o.Trials > 1000:
		return fmt.Errorf("netpipe: %d trials: 1 to 1000 are possible", o.Trials)
	case o.Repeats < 0 || o.Repeats > maxRepeats:
		return fmt.Errorf("netpipe: %d repeats: 1 to %d are possible, or 0 for as many as the time of a trial allows",
			o.Repeats, maxRepeats)
	case o.Repeats == 0 && o.TrialTime <= 0:
		return fmt.Errorf("netpipe: a trial of %v: a time above 0 is needed", o.TrialTime)
	case o.Mode < PingPong || o.Mode > Bidirectional:
		return fmt.Errorf("netpipe: %v is none", o.Mode)
	}
	return nil
}
