package exits

import "strconv"

// The layout of the log; see the package comment. Package hook writes it.
const (
	Magic      = uint64(0x3274_6978_656e_7962) // "bynexit2"
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

// Values in place of a status of wait(2), which is not negative.
const (
	// Unknown: it has ended, and the way is unknown.
	Unknown int32 = -1
	// Registered: it has been registered.
	Registered int32 = -2
	// Replaced: it has called exec, and is still registered.
	Replaced int32 = -4
	// Withdrawn: it is no longer registered, and its end will not be recorded.
	Withdrawn int32 = -3
)

// MostExecs bounds the calls of exec that are recorded of one process, since each takes room in the bell.
const MostExecs = 3

// Env names the environment variable that contains the descriptors: numbers with commas (log, bell,
// one or two links), the address of an agent, or [Off].
const Env = "BANYAN_EXITS"

// Values of [Env] that are no place: use none; and, for ftbench run, do not start
// ranks without.
const (
	Off = "off"
	On  = "on"
)

// MinFiles and MaxFiles bound the descriptors of a log: one link, and one more each
// where the kernel lets signals and calls of exec be seen.
const (
	MinFiles = 3
	MaxFiles = 5
)

// Variable is the value of [Env] for n descriptors that are inherited as the
// numbers from first on.
func Variable(first, n int) string {
	text := strconv.Itoa(first)
	for i := first + 1; i < first+n; i++ {
		text += "," + strconv.Itoa(i)
	}
	return text
}

// Descriptors reports whether a value of [Env] stands for inherited descriptors,
// which mean nothing but to the process that was given them.
func Descriptors(value string) bool {
	_, err := parse(value)
	return err == nil
}
