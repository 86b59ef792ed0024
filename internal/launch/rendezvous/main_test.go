package rendezvous

import (
	"testing"

	"go.uber.org/goleak"
)

// The resolver of package net ends its queries seconds after their caller has given up, where the name
// server does not answer.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net.(*Resolver).exchange"),
		goleak.IgnoreAnyFunction("net.(*Resolver).goLookupIPCNAMEOrder"),
		goleak.IgnoreAnyFunction("net.(*Resolver).lookupIPAddr.func2"))
}
