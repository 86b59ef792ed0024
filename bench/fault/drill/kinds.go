package drill

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is an operation that a rank may be killed in.
type Kind int

// The kinds that a program draws from come first: non-blocking sends, blocking sends, exchanges,
// receives that are posted early, blocking receives, ways to wait, collectives. The others accompany
// them.
const (
	isend Kind = iota
	issend
	sendInit
	ssendInit

	sendNow // from here on the sender blocks
	ssendNow
	sendContext
	ssendContext

	exchange // with the transfer after this one, in the other direction
	exchangeContext
	exchangeInter // on an intercommunicator of the two

	irecv
	recvInit
	irecvAnyTag
	irecvAny // from any source

	recvNow // from here on the receiver blocks
	recvAnyTag
	recvAny
	recvContext
	probe
	iprobe
	probeContext
	mprobe
	improbe
	mprobeContext

	messageRecv // of messages that mprobe, improbe and mprobeContext have found
	messageIrecv
	messageContext

	waitEach
	testEach
	waitAll
	testAll
	waitAny
	testAny
	waitSome
	testSome
	waitContext
	waitAllContext
	waitAnyContext
	waitSomeContext

	barrier
	bcast
	allreduce
	reduce
	gather
	scatter
	allgather
	alltoall
	allgatherv
	gatherv
	scatterv
	alltoallv
	reduceScatter
	scan
	exscan
	nonblockingCollective // any of them, non-blocking

	agree
	iagree
	shrink
	ishrink
	revoke
	isRevoked

	validate
	ivalidate
	validateMultiple
	uniformCollective
	uniformCreation
	rangedExchange

	dup
	failureAck
	cancel
	finalizeKind
	kinds

	noKind Kind = -1
)

// The ends of the ranges of kinds.
const (
	lastNonblocking = ssendInit
	lastSend        = ssendContext
	lastExchange    = exchangeInter
	lastPosted      = irecvAny
	lastReceive     = mprobeContext
	lastWait        = waitSomeContext
	lastCollective  = nonblockingCollective
	lastRepair      = isRevoked
	lastValidation  = rangedExchange
)

var kindNames = [kinds]string{
	"Isend", "Issend", "SendInit", "SsendInit", "Send", "Ssend", "Send (context)", "Ssend (context)",
	"Sendrecv", "Sendrecv (context)", "Sendrecv (inter)",
	"Irecv", "RecvInit", "Irecv (any tag)", "Irecv (any source)",
	"Recv", "Recv (any tag)", "Recv (any source)", "Recv (context)",
	"Probe", "Iprobe", "Probe (context)", "Mprobe", "Improbe", "Mprobe (context)",
	"Message.Recv", "Message.Irecv", "Message.Recv (context)",
	"Wait", "Test", "WaitAll", "TestAll", "WaitAny", "TestAny", "WaitSome", "TestSome",
	"Wait (context)", "WaitAll (context)", "WaitAny (context)", "WaitSome (context)",
	"Barrier", "Bcast", "Allreduce", "Reduce", "Gather", "Scatter", "Allgather",
	"Alltoall", "Allgatherv", "Gatherv", "Scatterv", "Alltoallv", "ReduceScatter", "Scan", "Exscan",
	"collective (non-blocking)",
	"Agree", "Iagree", "Shrink", "Ishrink", "Revoke", "IsRevoked",
	"Validate", "Ivalidate", "ValidateMultiple", "collective (uniform)", "creation (uniform)", "Sendrecv (range)",
	"Dup", "FailureAck", "Cancel", "Finalize",
}

// String is the operation's name in the public interface.
func (k Kind) String() string {
	if k < 0 || k >= kinds {
		return "nothing"
	}
	return kindNames[k]
}

// Kinds are all of them.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Lasting reports whether the operation waits for other ranks. The others return at once, so that a
// death within them is rare.
func (k Kind) Lasting() bool {
	return !slices.Contains([]Kind{revoke, isRevoked, dup, failureAck, cancel}, k)
}

// ParseKind parses a kind's name; "" aims at no operation.
func ParseKind(name string) (Kind, error) {
	k := Kind(slices.Index(kindNames[:], name))
	if k == noKind && name != "" {
		return k, fmt.Errorf("fault drill: there is no operation %q: want one of %s",
			name, strings.Join(kindNames[:], ", "))
	}
	return k, nil
}
