package exits

import "fmt"

// The layout of the log; see the package comment. Package hook writes it.
const (
	Magic      = uint64(0x3174_6978_656e_7962) // "bynexit1"
	MagicAt    = 0
	SpaceAt    = 8
	HeadAt     = 64
	EntriesAt  = 128
	EntrySize  = 32
	Entries    = 16384 // a power of two
	LogSize    = EntriesAt + Entries*EntrySize
	SeqAt      = 0
	PIDAt      = 8
	InnerAt    = 12
	EntrySpace = 16
	StatusAt   = 20
	TimeAt     = 24
)

// What may stand in place of a status of wait(2), which is not negative.
const (
	// Unknown: it has ended, and nothing says how.
	Unknown int32 = -1
	// Begun: it has been registered.
	Begun int32 = -2
	// Withdrawn: it is no longer registered, and its end will not be recorded.
	Withdrawn int32 = -3
)

// Env names the environment variable that says where a process finds the
// descriptors: three numbers with commas (log, bell, link), the address of an
// agent, or [Off].
const Env = "BANYAN_EXITS"

// Values of [Env] that are no place: use none; and, for ftbench run, do not start
// ranks without.
const (
	Off = "off"
	On  = "on"
)

// Variable is the value of [Env] for descriptors that are inherited as the
// numbers first, first+1 and first+2.
func Variable(first int) string { return fmt.Sprintf("%d,%d,%d", first, first+1, first+2) }

// Descriptors reports whether a value of [Env] stands for inherited descriptors,
// which mean nothing but to the process that was given them.
func Descriptors(value string) bool {
	_, err := parse(value)
	return err == nil
}
