package osu

import (
	"fmt"
	"strconv"
	"strings"
)

// Root is the rank that gets the result of a collective, or that has the data for all.
type Root struct {
	Rank int `json:"rank"`
	// Rotate: another rank in each call, from 0 on, in place of Rank.
	Rotate bool `json:"rotate,omitempty"`
}

// ParseRoot reads OSU's -k: fixed:RANK or rotate.
func ParseRoot(text string) (Root, error) {
	if strings.EqualFold(text, "rotate") {
		return Root{Rotate: true}, nil
	}
	word, number, _ := strings.Cut(text, ":")
	rank, err := strconv.Atoi(number)
	if !strings.EqualFold(word, "fixed") || err != nil || rank < 0 {
		return Root{}, fmt.Errorf("root %s: fixed:RANK or rotate is needed, such as fixed:1", text)
	}
	return Root{Rank: rank}, nil
}

// String is the word of which ParseRoot makes it.
func (r Root) String() string {
	if r.Rotate {
		return "rotate"
	}
	return "fixed:" + strconv.Itoa(r.Rank)
}

// of is the rank in a call, which counts from 0 on.
func (r Root) of(call, ranks int) int {
	if r.Rotate {
		return call % ranks
	}
	return r.Rank
}
