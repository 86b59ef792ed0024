// Package messages tests point-to-point communication on whole ranks: modes, matching, probes,
// requests, contexts, routes, and operations with failed peers. Floor 8.
package messages
