// Package warm has the kernel map a program's own code, or the memory that it allocates next, before they are needed,
// and gives goroutines enough stack before they wait.
//
// A page of code is mapped when it is first run. The code that deals with a death
// runs once in the life of most processes, in a hurry, and is spread over the whole
// program: on a virtual machine its page faults took longer than everything else
// between the kill and the error. The growth of a stack costs as much ([Stack]).
//
// Go's tables of functions are left out: they are a third of a program, and mapped pages take time when a process
// ends. The start reads them here and there, and the kernel maps 16 pages for one, so afterwards they are unmapped:
// what the program reads of them later is mapped again.
// New pages of the heap are for measurements only: a program does not know which of them it will need, and to map
// them takes as long beforehand.
//
// Floor 0: it knows nothing but the process.
package warm
