// Package doctor checks this machine for the fabrics, and shows the fabrics by which the ranks of a
// job reach each other: ftbench doctor.
//
// [Machine] prints a line for each finding: ok, warning or missing, and the remedy. All ranks of a
// job call [Job].
//
// Floor 8: beside the harnesses.
package doctor
