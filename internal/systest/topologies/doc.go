// Package topologies tests packages topology and layout on whole ranks: random grids and graphs against a
// sequential oracle, orders on simulated nodes, deaths among neighbours, and borders of fields. Floor 8.
package topologies
