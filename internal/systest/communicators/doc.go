// Package communicators tests communicators as objects: creation, groups, attributes, error
// handlers, freeing, values through codecs, and methods of zero values. Floor 8.
package communicators
