// Package doctor reports what this machine has for the fabrics, and by which fabrics the ranks of a
// job reach each other: ftbench doctor.
//
// [Machine] prints a line for each finding: ok, warning or missing, and the cure. [Job] is called
// by all ranks of a job.
//
// Floor 8: beside the harnesses.
package doctor
