package intrusion

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is the outcome of a flood.
type Report struct {
	// Elapsed is the time in which connections were opened.
	Elapsed time.Duration `json:"elapsed_ns"`
	// Processor is the CPU time of the flood itself.
	Processor time.Duration `json:"processor_ns"`
	// Made counts attempts by kind, Connected those that were established.
	Made      map[string]int `json:"made"`
	Connected int            `json:"connected"`
	// Failed counts the others by the error of the system.
	Failed map[string]int `json:"failed,omitempty"`
	// Dropped counts those that the server had closed before they left. It drops a silent one only
	// if it is less patient than Config.Stay.
	Dropped map[string]int `json:"dropped"`
	// Answered counts those that received bytes; AnswerMax is the longest answer, in bytes.
	Answered  int `json:"answered"`
	AnswerMax int `json:"answer_bytes_max"`
}

func newReport() Report {
	return Report{Made: map[string]int{}, Failed: map[string]int{}, Dropped: map[string]int{}}
}

// Total counts all attempts.
func (r *Report) Total() int {
	n := 0
	for _, made := range r.Made {
		n += made
	}
	return n
}

// Rate is connections per second.
func (r *Report) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Connected) / r.Elapsed.Seconds()
}

// Add adds another flood's.
func (r *Report) Add(o Report) {
	if r.Made == nil {
		*r = newReport()
	}
	r.Elapsed += o.Elapsed
	r.Processor += o.Processor
	r.Connected += o.Connected
	r.Answered += o.Answered
	r.AnswerMax = max(r.AnswerMax, o.AnswerMax)
	for _, pair := range []struct{ to, from map[string]int }{{r.Made, o.Made}, {r.Failed, o.Failed},
		{r.Dropped, o.Dropped}} {
		for name, n := range pair.from {
			pair.to[name] += n
		}
	}
}

// String is for people.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d connections, %.0f a second:", r.Connected, r.Rate())
	for _, name := range slices.Sorted(maps.Keys(r.Made)) {
		fmt.Fprintf(&b, " %d %s (%d dropped)", r.Made[name], name, r.Dropped[name])
	}
	if r.Answered > 0 {
		fmt.Fprintf(&b, "; %d got an answer, of at most %d bytes", r.Answered, r.AnswerMax)
	}
	for _, why := range slices.Sorted(maps.Keys(r.Failed)) {
		fmt.Fprintf(&b, "; %d failed: %s", r.Failed[why], why)
	}
	return b.String()
}
