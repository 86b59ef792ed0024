//go:build 386 || arm || mips || mipsle

package proc

// Lengths of messages are ints, and those that travel have 64 bits: on a machine with 32 they would
// be truncated. The build fails here, and the name is the reason.
const _ = banyan_needs_a_machine_with_64_bit_integers
