// Package transcripts plays the transcripts in testdata, on real processes and in the simulator.
// Each is a short program of several ranks with the results that a section of a document requires.
// Floor 8.
package transcripts
