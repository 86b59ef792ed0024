package fabrictest

import (
	"github.com/banyan-hpc/banyan/fabric"
	"github.com/banyan-hpc/banyan/internal/proc"
)

func connectCases() []Case {
	return []Case{
		{Name: "connect", N: 2, Body: connectTwice,
			About: "Connect makes the connection to a peer, or returns the existing one."},
		{Name: "connect-garbage", N: 2, Body: connectGarbage,
			About: "Connect to an invalid address is an error without consequences."},
		{Name: "connect-passive", N: 2, Body: connectPassive,
			About: "Frames arrive from a peer that this process has not connected to, and Lookup returns the connection."},
	}
}

// exchange sends n frames each way with every peer and ends the flows.
func exchange(e *Env, n int) {
	for i := range n {
		e.Others(func(id proc.ID) { e.Send(id, i%minFrame) })
	}
	e.Others(e.Finish)
	e.Others(e.AwaitFinish)
}

func connectTwice(e *Env) {
	e.Check(e.Provider.Name() != "", "the provider has no name")
	n := len(e.Provider.Address())
	e.Check(n > 0 && n <= 256, "the address has %d bytes", n)
	other := 1 - e.ID
	e.Check(e.Provider.Lookup(proc.None) == nil, "Lookup gives a connection to no process")
	if e.ID == 0 {
		e.Check(e.Provider.Lookup(other) == nil, "Lookup returns a connection that does not exist")
		e.Control.Signal("looked")
	} else {
		e.Control.Await(other, "looked")
	}
	first := e.Conn(other)
	e.Check(e.Provider.Lookup(other) == first, "Lookup does not give the connection that there is")
	again, err := e.Provider.Connect(fabric.ConnectSpec{Peer: other, Address: e.Addrs[other]})
	e.Check(err == nil, "the second Connect: %v", err)
	e.Check(again == first, "the second Connect made another connection")
	exchange(e, 10)
}

func connectGarbage(e *Env) {
	other := 1 - e.ID
	real := e.Addrs[other]
	noise := make([]byte, 300)
	for i := range noise {
		noise[i] = byte(e.Rand.Uint32())
	}
	blobs := [][]byte{nil, {}, {0}, noise[:len(real)], noise[:256], noise}
	for n := range len(real) {
		blobs = append(blobs, real[:n])
	}
	blobs = append(blobs, append(append([]byte(nil), real...), 0))
	for _, b := range blobs {
		c, err := e.Provider.Connect(fabric.ConnectSpec{Peer: other, Address: b})
		e.Check(err != nil && c == nil, "Connect to the %d bytes %x: connection %v, error %v", len(b), b, c, err)
	}
	for _, id := range []proc.ID{proc.None, proc.MaxIDs} {
		_, err := e.Provider.Connect(fabric.ConnectSpec{Peer: id, Address: real})
		e.Check(err != nil, "Connect to %v, which is no process, succeeds", id)
	}
	exchange(e, 10)
}

func connectPassive(e *Env) {
	const n = 20
	if e.ID == 0 {
		for i := range n {
			e.Send(1, i)
		}
		e.Finish(1)
		e.AwaitFinish(1)
		return
	}
	e.SleepAlways = true
	e.AwaitFinish(0) // before it connects itself
	e.Check(e.Got(0) == n, "%d frames came, %d were sent", e.Got(0), n)
	c := e.Provider.Lookup(0)
	e.Check(c != nil, "Lookup gives no connection to a peer whose frames have come")
	e.peers[0].conn = c
	exchange(e, n)
}
