// Package ft holds the words of failure that every layer shares: sets of
// processes ([Set]) and what this process knows of the dead ([View]).
//
// A death is known when it stands in the View. It is entered there by the
// progress engine alone, after the evidence has been confirmed and what had
// already arrived from the dead has been drained; from that instant nothing
// from the dead is delivered any more. Recognized, acknowledged and agreed are
// properties of a communicator, not of the View.
//
// Floor 1. It imports package proc only; it has no I/O and no clock.
package ft
