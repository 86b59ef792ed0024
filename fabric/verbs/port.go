//go:build cgo

package verbs

import (
	"encoding/binary"
	"fmt"
)

// openPort is a port of an adapter, and the buffers of the lanes and of the reads over it. The processes of a job pair their ports by
// number.
type openPort struct {
	Port
	n     int // its number
	d     *device
	lanes map[uint32]*Conn // by the number of their queue pairs
	rails map[uint32]*rail // likewise

	outgoing, incoming slots
	posted, needed     int      // buffers of incoming that are posted; that peers have credit for
	repost             []uint32 // buffers to be posted again

	buffers  []memory // for reads, that are not in use
	made     int      // of them
	underWay int      // reads
}

// maxReceives and maxCompletions are the limits of small adapters.
const maxReceives, maxCompletions = 16 << 10, 32 << 10

// openPorts opens the ports. The first one has to be opened; another one that cannot be used is left out.
func (p *Provider) openPorts() error {
	peers := p.cfg.Sockets.MaxProcs
	receives := min(maxReceives, peers*(p.credit+spare)+chunkSlots)
	completions := min(maxCompletions, mostReads+receives+peers*(2*p.ring()+mostMoves))
	for i, port := range p.cfg.Ports[:min(len(p.cfg.Ports), mostRails)] {
		d, err := openDevice(port, uint32(receives), uint32(completions))
		switch {
		case err == nil:
			o := &openPort{Port: port, n: len(p.ports), d: d, lanes: make(map[uint32]*Conn), rails: make(map[uint32]*rail)}
			o.outgoing.d, o.incoming.d = d, d
			p.ports = append(p.ports, o)
		case i == 0:
			return err
		default:
			p.log.Info("a port is left out", "port", port, "reason", err)
		}
	}
	return nil
}

// closePorts closes them. The connections have ended.
func (p *Provider) closePorts() {
	for _, o := range p.ports {
		for i := range o.buffers {
			o.buffers[i].free()
		}
		o.outgoing.release()
		o.incoming.release()
		o.d.close()
	}
}

// watchPorts has the events of the ports wake this process.
func (p *Provider) watchPorts() error {
	for _, o := range p.ports {
		for _, fd := range o.d.fds() {
			if err := p.AlsoWatch(fd); err != nil {
				return fmt.Errorf("verbs: %w", err)
			}
		}
	}
	return nil
}

// active reports whether something may come over the port, or waits to be posted.
func (o *openPort) active() bool { return len(o.lanes)+o.underWay+o.d.sending > 0 }

// fillReceives posts as many buffers as the peers have credit for. Precondition: no work waits to be posted.
func (o *openPort) fillReceives() error {
	for o.posted < o.needed {
		slot, err := o.incoming.take()
		if err != nil {
			return err
		}
		o.posted++
		o.repost = append(o.repost, slot)
	}
	for len(o.repost) > 0 {
		o.refill()
		if _, _, err := o.d.round(0); err != nil {
			return err
		}
	}
	return nil
}

// refill has the next round post buffers again, as many as it takes.
func (o *openPort) refill() {
	for len(o.repost) > 0 {
		slot := o.repost[len(o.repost)-1]
		at, m := o.incoming.at(slot)
		if !o.d.receive(at, m, receiveBit|uint64(slot)) {
			return
		}
		o.repost = o.repost[:len(o.repost)-1]
	}
}

// receiveBit and readBit distinguish the ids of buffers, and of reads of messages, from those of messages.
const receiveBit, readBit = 1 << 63, 1 << 62

// roundTrip posts the waiting work of all ports, and takes completions with so many looks at each. It returns their number.
func (p *Provider) roundTrip(looks int) (found int) {
	for _, o := range p.ports {
		if o.active() {
			found += p.round(o, looks)
		}
	}
	return found
}

// round is roundTrip of one port.
func (p *Provider) round(o *openPort, looks int) (found int) {
	o.refill()
	for {
		n, refused, err := o.d.round(looks)
		p.tick = o.d.tick()
		for i := range n {
			done := o.d.completed(i)
			p.complete(o, &done)
		}
		if found += n; err == nil {
			return found
		}
		if refused == (pair{}) {
			p.log.Warn("RDMA has failed", "port", o.Port, "reason", err)
		}
		for _, c := range p.conns {
			if c.port == o && (refused == (pair{}) || c.pair == refused) {
				c.fails(err) // its messages go over the sockets
			}
		}
		p.refused(o, refused, err)
		if refused == (pair{}) {
			return found
		}
		looks = 0
	}
}

// arm has the next completion of a message of a peer, with all any one, wake this process; true: one has come.
func (p *Provider) arm(all bool) bool {
	p.armed = true
	for _, o := range p.ports {
		if !o.active() {
			continue
		}
		if o.d.drain(); o.d.arm(all) != nil || p.round(o, 1) > 0 {
			return true
		}
	}
	return false
}

// calls are those into C for all ports.
func (p *Provider) calls() (all Calls) {
	for _, o := range p.ports {
		all.Busy += o.d.calls.Busy
		all.Idle += o.d.calls.Idle
	}
	return all
}

// regions is memory that is registered with each port; the zero memory: it is not with that one.
type regions []memory

// register registers memory with all ports. key is for peers, of all ports: see readKeys. An error: it is not registered with the
// first port, and so with none.
func (p *Provider) register(mem []byte, writes bool) (on regions, key []byte, err error) {
	for i, o := range p.ports {
		m, err := o.d.register(mem, writes)
		if err != nil {
			p.log.Info("memory is used without RDMA", "port", o.Port, "reason", err)
			if i == 0 {
				return nil, nil, err
			}
			on, key = append(on, memory{}), append(key, make([]byte, keyBytes)...)
			continue
		}
		on, key = append(on, m), binary.LittleEndian.AppendUint32(key, m.remote())
	}
	return on, key, nil
}

func (r regions) deregister() {
	for i := range r {
		if r[i].c != nil {
			r[i].deregister()
		}
	}
}
