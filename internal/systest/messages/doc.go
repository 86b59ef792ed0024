// Package messages tests point-to-point communication on whole ranks: modes, matching, probes, requests,
// contexts, routes, and what becomes of operations when a peer fails. Floor 8.
package messages
