// Package topologies tests package topology on whole ranks: random grids and graphs against a sequential
// oracle, orders on simulated nodes, and deaths among neighbours. Floor 8.
package topologies
