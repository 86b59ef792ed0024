package drill

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is an operation that a rank may be killed in.
type Kind int

// The kinds that a program draws from come first: messages that are begun to be
// sent, sends that block, exchanges, receives that are posted early, receives that
// block, ways to wait, collectives. The rest happens beside them.
const (
	isend Kind = iota
	issend
	sendInit
	ssendInit

	sendNow // from here on the sender blocks
	ssendNow
	sendContext
	ssendContext

	exchange // with the transfer after this one, which comes back
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

	messageRecv // of what mprobe, improbe and mprobeContext have found
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
	begunCollective // any of them, begun

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

// Bounds of what is drawn.
const (
	lastBegun      = ssendInit
	lastSend       = ssendContext
	lastExchange   = exchangeInter
	lastPosted     = irecvAny
	lastReceive    = mprobeContext
	lastWait       = waitSomeContext
	lastCollective = begunCollective
	lastRepair     = isRevoked
	lastMend       = rangedExchange
)

var kindNames = [kinds]string{
	"Isend", "Issend", "SendInit", "SsendInit", "Send", "Ssend", "SendContext", "SsendContext",
	"Sendrecv", "SendrecvContext", "Sendrecv (inter)",
	"Irecv", "RecvInit", "Irecv (any tag)", "Irecv (any source)",
	"Recv", "Recv (any tag)", "Recv (any source)", "RecvContext",
	"Probe", "Iprobe", "ProbeContext", "Mprobe", "Improbe", "MprobeContext",
	"Message.Recv", "Message.Irecv", "Message.RecvContext",
	"Wait", "Test", "WaitAll", "TestAll", "WaitAny", "TestAny", "WaitSome", "TestSome",
	"WaitContext", "WaitAllContext", "WaitAnyContext", "WaitSomeContext",
	"Barrier", "Bcast", "Allreduce", "Reduce", "Gather", "Scatter", "Allgather", "collective (begun)",
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

// Lasting reports whether the operation waits for somebody: the others return at once, so
// that a death within is chance.
func (k Kind) Lasting() bool {
	return !slices.Contains([]Kind{revoke, isRevoked, dup, failureAck, cancel}, k)
}

// ParseKind reads a kind's name; "" is what aims at nothing.
func ParseKind(name string) (Kind, error) {
	k := Kind(slices.Index(kindNames[:], name))
	if k == noKind && name != "" {
		return k, fmt.Errorf("fault drill: there is no operation %q: want one of %s", name, strings.Join(kindNames[:], ", "))
	}
	return k, nil
}
