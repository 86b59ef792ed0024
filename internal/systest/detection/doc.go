// Package detection tests how ranks learn of failed, stopped and unreachable ranks, and that no
// living rank counts as failed. Floor 8.
package detection
