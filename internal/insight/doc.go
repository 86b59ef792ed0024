// Package insight lets the harnesses of this project ask a world for what its
// public interface keeps to itself, because no application should rely on it.
// The root package says here how to answer; whoever has not linked it gets nothing.
//
// Floor 0: it knows nobody, which is why a world is an any.
package insight
