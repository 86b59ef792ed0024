// Package few has a map that takes little memory while it has few entries. The smallest map of the
// language takes a group of eight entries with its first one, hundreds of bytes; a simulation of
// 10^6 ranks has several such maps for each rank.
//
// Floor 0. It imports nothing of Banyan's.
package few
