package pmi

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// lostMax bounds the text that names missing ranks, in bytes, so that the reply fits a line of
// other implementations.
const lostMax = 480

// encodeLost returns the fields by which a barrier's reply names missing ranks. Other clients
// ignore them.
func encodeLost(lost []Lost) []string {
	if len(lost) == 0 {
		return nil
	}
	var text strings.Builder
	for _, l := range lost {
		line := fmt.Sprintf("%d %s\n", l.Rank, l.Why)
		if text.Len()+len(line) > lostMax {
			break
		}
		text.WriteString(line)
	}
	return []string{
		"rc", "1", "msg", OneWord(lost[0].String(), 120),
		"lost", base64.RawURLEncoding.EncodeToString([]byte(text.String())),
		"total", strconv.Itoa(len(lost)),
	}
}

// DecodeLost is the inverse of encodeLost. It returns nil for a reply that names no rank.
func DecodeLost(m Message) (*MissingError, error) {
	coded := m.Get("lost")
	if coded == "" {
		return nil, nil
	}
	total, err := m.Number("total")
	if err != nil {
		return nil, err
	}
	text, err := base64.RawURLEncoding.DecodeString(coded)
	if err != nil {
		return nil, fmt.Errorf("lost=%s: %w", Excerpt(coded), err)
	}
	missing := &MissingError{Total: total}
	for line := range strings.Lines(string(text)) {
		number, why, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		rank, err := strconv.Atoi(number)
		if err != nil || rank < 0 {
			return nil, fmt.Errorf("lost ranks named as %s", Excerpt(line))
		}
		missing.Lost = append(missing.Lost, Lost{rank, why})
	}
	if len(missing.Lost) == 0 || total < len(missing.Lost) {
		return nil, fmt.Errorf("%d lost ranks named of %d", len(missing.Lost), total)
	}
	return missing, nil
}
