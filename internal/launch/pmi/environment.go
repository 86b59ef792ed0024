package pmi

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// Lookup looks a variable up, as os.LookupEnv does.
type Lookup func(name string) (string, bool)

// EnvironmentError is an error of class [ErrEnvironment].
func EnvironmentError(format string, args ...any) error {
	return fmt.Errorf("launch: %w: %w", ErrEnvironment, fmt.Errorf(format, args...))
}

// Number parses a variable, a number in least…most.
func Number(name, text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, EnvironmentError("%s=%q is not a number in %d…%d", name, text, least, most)
	}
	return n, nil
}

// DefaultInitTimeout is how long a rank may take to join after the first one.
const DefaultInitTimeout = 60 * time.Second

// InitTimeoutEnv names the environment variable that replaces [DefaultInitTimeout]: "90s", "2m", or
// a number of seconds. It also bounds how long a rank waits for its launcher's answer.
const InitTimeoutEnv = "BANYAN_INIT_TIMEOUT"

// ParseInitTimeout parses the value of [InitTimeoutEnv].
func ParseInitTimeout(text string) (time.Duration, error) {
	if text == "" {
		return DefaultInitTimeout, nil
	}
	d, err := time.ParseDuration(text)
	if seconds, serr := strconv.ParseFloat(text, 64); serr == nil {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("launch: %s=%q is neither a duration such as 90s nor a number of seconds", InitTimeoutEnv, text)
	}
	return d, nil
}

// IDPrefix begins the names of jobs that Banyan launched.
const IDPrefix = "banyan-"

// NewID returns a unique name for a job, short enough to be typed.
func NewID() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return IDPrefix + hex.EncodeToString(b[:])
}
