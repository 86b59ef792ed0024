// Package ft has the types of failure handling that every layer shares: error classes, sets of
// processes ([Set]) and this process's view of failed processes ([View]).
//
// A failure is known when it is in the View. Only the progress engine enters it, after the evidence
// has been confirmed and the messages that had already arrived from the failed process have been
// drained; from then on nothing from that process is delivered. Recognized, acknowledged and agreed
// are properties of a communicator, not of the View.
//
// Floor 1. It imports package proc only; it has no I/O and no clock.
package ft
