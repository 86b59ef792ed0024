package netns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// pair is a direction: from one host to another.
type pair struct{ from, to int }

// Cut stops all frames between two hosts, both ways. They are lost without an error: connections
// stay, and their data are sent again until they arrive after [Net.Heal] or the sender gives up.
func (n *Net) Cut(a, b int) error { return n.cut(pair{a, b}, pair{b, a}) }

// CutOneWay stops the frames from one host to another, and not those in the other direction.
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

// Mend undoes Cut of two hosts, and all other cuts between them.
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

// drop makes the bridge drop the frames of these pairs and no others, in one transaction: no frame
// sees half of the change. As nft would write it:
//
//	table bridge banyan {
//	  set cut { type iface_index . iface_index; elements = { … } }
//	  chain forward { type filter hook forward priority 0; iif . oif @cut drop }
//	}
func (n *Net) drop(cuts map[pair]bool) error {
	batch, err := nftables.New(nftables.WithNetNSFd(int(n.bridge.handle)))
	if err == nil {
		err = errors.Join(dropRules(batch, cuts), batch.Flush())
	}
	if err != nil {
		return fmt.Errorf("netns: change the rules of the bridge: %w", needs(err, "CONFIG_NF_TABLES_BRIDGE", "nf_tables"))
	}
	if cuts == nil {
		cuts = make(map[pair]bool)
	}
	n.cuts = cuts
	return nil
}

// dropRules replaces the table by one for these pairs.
func dropRules(batch *nftables.Conn, cuts map[pair]bool) error {
	table := &nftables.Table{Name: "banyan", Family: nftables.TableFamilyBridge}
	batch.AddTable(table) // to delete a missing table is an error
	batch.DelTable(table)
	if len(cuts) == 0 {
		return nil
	}
	batch.AddTable(table)
	chain := batch.AddChain(&nftables.Chain{
		Name: "forward", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityRef(0),
	})
	set := &nftables.Set{
		Table: table, Name: "cut", ID: 1, Concatenation: true, KeyByteOrder: binaryutil.NativeEndian, // ID: of the transaction
		KeyType: nftables.MustConcatSetType(nftables.TypeIFIndex, nftables.TypeIFIndex),
	}
	if err := batch.AddSet(set, nil); err != nil {
		return err
	}
	// A message holds as many elements as an attribute's length of 16 bits allows.
	for some := range slices.Chunk(slices.Collect(maps.Keys(cuts)), 1000) {
		if err := batch.SetAddElements(set, elements(some)); err != nil {
			return err
		}
	}
	// Two registers of four bytes that lie side by side hold the key.
	batch.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIF, Register: unix.NFT_REG32_00},
		&expr.Meta{Key: expr.MetaKeyOIF, Register: unix.NFT_REG32_00 + 1},
		&expr.Lookup{SourceRegister: unix.NFT_REG32_00, SetName: set.Name, SetID: set.ID},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}})
	return nil
}

// elements are the pairs as the interface numbers of the ports.
func elements(pairs []pair) []nftables.SetElement {
	all := make([]nftables.SetElement, len(pairs))
	for i, p := range pairs {
		key := binary.NativeEndian.AppendUint32(nil, uint32(firstPort+p.from))
		all[i].Key = binary.NativeEndian.AppendUint32(key, uint32(firstPort+p.to))
	}
	return all
}
