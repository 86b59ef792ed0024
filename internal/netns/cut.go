package netns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// pair is a direction: from one host to another.
type pair struct{ from, to int }

// Cut stops all frames between two hosts, both ways. They are lost without a
// sign: connections stay, and what they send is sent again until it arrives
// after [Net.Heal] or the sender gives up.
func (n *Net) Cut(a, b int) error { return n.cut(pair{a, b}, pair{b, a}) }

// CutOneWay stops the frames from one host to another and lets those pass that
// go back.
func (n *Net) CutOneWay(from, to int) error { return n.cut(pair{from, to}) }

// Isolate cuts a host off all others.
func (n *Net) Isolate(host int) error {
	if n.cfg.Hosts == 1 {
		_, err := n.host(host)
		return err
	}
	var all []pair
	for peer := range n.cfg.Hosts {
		if peer != host {
			all = append(all, pair{host, peer}, pair{peer, host})
		}
	}
	return n.cut(all...)
}

// Mend undoes Cut of two hosts, and what else was cut between them.
func (n *Net) Mend(a, b int) error { return n.mend(pair{a, b}, pair{b, a}) }

// MendOneWay undoes CutOneWay, and lets the opposite direction be.
func (n *Net) MendOneWay(from, to int) error { return n.mend(pair{from, to}) }

func (n *Net) mend(pairs ...pair) error {
	for _, p := range pairs {
		if _, err := n.host(p.from); err != nil {
			return err
		}
	}
	if err := n.lock(); err != nil {
		return err
	}
	defer n.mu.Unlock()
	cuts := maps.Clone(n.cuts)
	for _, p := range pairs {
		delete(cuts, p)
	}
	return n.drop(cuts)
}

// Heal undoes all cuts and brings up all links. It returns when frames flow.
func (n *Net) Heal() error {
	if err := n.lock(); err != nil {
		return err
	}
	defer n.mu.Unlock()
	var errs []error
	if len(n.cuts) > 0 {
		errs = append(errs, n.drop(nil))
	}
	for _, h := range slices.Sorted(maps.Keys(n.down)) {
		errs = append(errs, n.linkUp(h))
	}
	return errors.Join(errs...)
}

func (n *Net) cut(pairs ...pair) error {
	for _, p := range pairs {
		for _, h := range []int{p.from, p.to} {
			if _, err := n.host(h); err != nil {
				return err
			}
		}
		if p.from == p.to {
			return fmt.Errorf("netns: host %d cannot be cut off itself", p.from)
		}
	}
	if err := n.lock(); err != nil {
		return err
	}
	defer n.mu.Unlock()
	cuts := maps.Clone(n.cuts)
	for _, p := range pairs {
		cuts[p] = true
	}
	return n.drop(cuts)
}

// drop makes the bridge drop the frames of these pairs and no others, in one
// transaction: no frame sees half of the change.
func (n *Net) drop(cuts map[pair]bool) error {
	var filter *talker
	err := n.bridge.within(func() (err error) {
		filter, err = dial(unix.NETLINK_NETFILTER)
		return err
	})
	if err == nil {
		err = errors.Join(filter.transact(dropRules(cuts)), filter.close())
	}
	if err != nil {
		return fmt.Errorf("netns: tell the bridge what to drop: %w", needs(err, "CONFIG_NF_TABLES_BRIDGE", "nf_tables"))
	}
	if cuts == nil {
		cuts = make(map[pair]bool)
	}
	n.cuts = cuts
	return nil
}

// The names of what is in the bridge's nftables, for `nft list ruleset` there.
const (
	tableName = "banyan"
	chainName = "forward"
	setName   = "cut"
)

// From linux/netfilter_bridge.h and linux/netfilter.h.
const (
	hookForward = 2
	verdictDrop = 0
)

// dropRules are the messages that replace the table by one for these pairs. As
// nft would write it:
//
//	table bridge banyan {
//	  set cut { type iface_index . iface_index; elements = { … } }
//	  chain forward { type filter hook forward priority 0; iif . oif @cut drop }
//	}
func dropRules(cuts map[pair]bool) []*message {
	// Deleting what is not there is an error, so it is made first.
	msgs := []*message{newTable(unix.NFT_MSG_NEWTABLE), newTable(unix.NFT_MSG_DELTABLE)}
	if len(cuts) == 0 {
		return msgs
	}
	return slices.Concat(msgs, []*message{newTable(unix.NFT_MSG_NEWTABLE), newChain(), newSet()}, newElements(cuts), []*message{newRule()})
}

// filterMessage begins a message to nftables about the bridge family.
func filterMessage(kind int) *message {
	return request(uint16(unix.NFNL_SUBSYS_NFTABLES<<8|kind), unix.NLM_F_CREATE, []byte{unix.NFPROTO_BRIDGE, 0, 0, 0}) // struct nfgenmsg
}

func newTable(kind int) *message {
	m := filterMessage(kind)
	m.putString(unix.NFTA_TABLE_NAME, tableName)
	return m
}

func newChain() *message {
	m := filterMessage(unix.NFT_MSG_NEWCHAIN)
	m.putString(unix.NFTA_CHAIN_TABLE, tableName)
	m.putString(unix.NFTA_CHAIN_NAME, chainName)
	m.putString(unix.NFTA_CHAIN_TYPE, "filter")
	m.nest(unix.NFTA_CHAIN_HOOK, func() {
		m.putBE32(unix.NFTA_HOOK_HOOKNUM, hookForward)
		m.putBE32(unix.NFTA_HOOK_PRIORITY, 0)
	})
	return m
}

func newSet() *message {
	m := filterMessage(unix.NFT_MSG_NEWSET)
	m.putString(unix.NFTA_SET_TABLE, tableName)
	m.putString(unix.NFTA_SET_NAME, setName)
	m.putBE32(unix.NFTA_SET_FLAGS, 0)
	m.putBE32(unix.NFTA_SET_KEY_TYPE, 0) // only nft itself reads it
	m.putBE32(unix.NFTA_SET_KEY_LEN, 8)
	m.putBE32(unix.NFTA_SET_ID, 1)
	return m
}

// newElements are the pairs as the numbers of the ports. A message holds as many
// as an attribute's length of 16 bits allows.
func newElements(cuts map[pair]bool) []*message {
	var msgs []*message
	for some := range slices.Chunk(slices.Collect(maps.Keys(cuts)), 1000) {
		m := filterMessage(unix.NFT_MSG_NEWSETELEM)
		m.putString(unix.NFTA_SET_ELEM_LIST_TABLE, tableName)
		m.putString(unix.NFTA_SET_ELEM_LIST_SET, setName)
		m.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func() {
			for _, p := range some {
				key := native.AppendUint32(nil, uint32(firstPort+p.from))
				key = native.AppendUint32(key, uint32(firstPort+p.to))
				m.nest(unix.NFTA_LIST_ELEM, func() {
					m.nest(unix.NFTA_SET_ELEM_KEY, func() { m.put(unix.NFTA_DATA_VALUE, key) })
				})
			}
		})
		msgs = append(msgs, m)
	}
	return msgs
}

func newRule() *message {
	m := filterMessage(unix.NFT_MSG_NEWRULE)
	m.putString(unix.NFTA_RULE_TABLE, tableName)
	m.putString(unix.NFTA_RULE_CHAIN, chainName)
	step := func(name string, fill func()) {
		m.nest(unix.NFTA_LIST_ELEM, func() {
			m.putString(unix.NFTA_EXPR_NAME, name)
			m.nest(unix.NFTA_EXPR_DATA, fill)
		})
	}
	load := func(what, register uint32) {
		step("meta", func() {
			m.putBE32(unix.NFTA_META_KEY, what)
			m.putBE32(unix.NFTA_META_DREG, register)
		})
	}
	m.nest(unix.NFTA_RULE_EXPRESSIONS, func() {
		load(unix.NFT_META_IIF, unix.NFT_REG32_00) // two registers of four bytes that lie side by side
		load(unix.NFT_META_OIF, unix.NFT_REG32_00+1)
		step("lookup", func() {
			m.putString(unix.NFTA_LOOKUP_SET, setName)
			m.putBE32(unix.NFTA_LOOKUP_SREG, unix.NFT_REG32_00)
		})
		step("immediate", func() {
			m.putBE32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
			m.nest(unix.NFTA_IMMEDIATE_DATA, func() {
				m.nest(unix.NFTA_DATA_VERDICT, func() { m.putBE32(unix.NFTA_VERDICT_CODE, verdictDrop) })
			})
		})
	})
	native.PutUint16(m.b[6:], native.Uint16(m.b[6:])|unix.NLM_F_APPEND)
	return m
}

// transact does all of msgs or nothing. Of the acknowledgements only the last is
// asked for, since hundreds would not fit the socket; errors come unasked.
func (t *talker) transact(msgs []*message) error {
	limits := [4]byte{} // struct nfgenmsg of the batch: which subsystem it is for
	binary.BigEndian.PutUint16(limits[2:], unix.NFNL_SUBSYS_NFTABLES)
	last := msgs[len(msgs)-1]
	native.PutUint16(last.b[6:], native.Uint16(last.b[6:])|unix.NLM_F_ACK)
	batch := append([]*message{request(unix.NFNL_MSG_BATCH_BEGIN, 0, limits[:])}, msgs...)
	first, end, err := t.send(append(batch, request(unix.NFNL_MSG_BATCH_END, 0, limits[:]))...)
	if err != nil {
		return err
	}
	return t.answers(first, end-1, func([]byte) {})
}
