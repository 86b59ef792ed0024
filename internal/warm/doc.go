// Package warm lets the kernel map a program's own code, or the memory that it allocates next, before they are needed.
//
// A page of code is mapped when it is first run. The code that deals with a death
// runs once in the life of most processes, in a hurry, and is spread over the whole
// program: on a virtual machine its page faults took longer than everything else
// between the kill and the error.
// Go's tables of functions are left out: they are a third of a program, and what is mapped takes time when a process ends.
// The same holds of new pages of the heap. A program cannot know which of them it will need, and to map them takes as long beforehand, so
// that is for measurements.
//
// Floor 0: it knows nothing but the process.
package warm
