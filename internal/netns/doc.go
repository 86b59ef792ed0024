// Package netns makes small networks on one machine: N network namespaces, the hosts, connected by a bridge. Tests
// of transports and ftbench run --netns use them as machines whose links can be cut, slowed down and removed.
//
//	n, err := netns.Open(netns.Config{Hosts: 4, RateMbit: 1000})
//	if err != nil { … }      // names the missing privilege or kernel option
//	defer n.Close()
//	err = n.Start(0, cmd)    // like cmd.Start, on host 0
//	err = n.Do(1, func() error { l, err = net.Listen("tcp", …); return err })
//	err = n.Cut(0, 1)        // silence, both ways
//	err = n.Heal()
//
// iproute2 accepts [Net.Name] too: `ip netns exec NAME COMMAND`.
//
// # Hosts
//
// A host has lo and eth0, both up, with the addresses [Net.Addr] and [Net.Addr6] of a network that no other Net of
// this machine uses. The bridge lies in a namespace of its own. Nothing outside the namespaces made here is changed:
// the machine's own interfaces, routes and filters stay unchanged, and no packet leaves. Only the network is
// separate, abstract Unix sockets included. Hosts share files, process ids and the host name, and /sys shows the
// machine's own devices, unless the command was started by ip netns exec, which mounts another.
//
// Neighbours are permanent entries, so there is no ARP and no neighbour discovery: an address is never found out to
// be unreachable. So a cut is silent, as it is between networks, without EHOSTUNREACH after three seconds.
//
// # How frames are dropped
//
// By nftables, in the forward hook of the bridge: one rule looks up the pair (port in, port out) in a set, which
// each change replaces as a whole. It is silent, and sees direction and peer for every protocol, broadcasts
// included. It lies outside the hosts, so that no process in a host sees or undoes it. It costs nothing without
// cuts, because the table is then removed. It works in a user namespace. Alternatives were rejected: netem and the
// drop action of tc are modules that small kernels lack (netem has no peers either), and a queue that drops reports
// that to the sending TCP; BPF on tc or XDP needs privileges of the whole machine, and XDP on veth turns off
// segmentation offload, which would change the measured system; unreachable routes send errors.
//
// Rates are a token bucket (tbf) at both ends of each link. Delay needs netem; without it [Open] fails and names the
// option.
//
// A cut or a healing takes about ten milliseconds, in which the kernel waits for all cores; it is in force when the
// call returns. Frames that have passed the bridge by then arrive.
//
// # Privileges
//
// CAP_SYS_ADMIN and CAP_NET_ADMIN; root has them. A user without them gets them in a user namespace, if the
// distribution allows that:
//
//	unshare -Urnm sh -c 'mount -t tmpfs run /run && COMMAND'
//
// /run is covered because the names are made in /run/netns, which is root's. The tests of this package pass there
// too. [Check] reports it beforehand. No program is called. Tests that lack the privileges fail; with
// BANYAN_NO_NETNS=1 they print the omitted tests and pass.
//
// # Removal
//
// [Net.Close] removes a network. If the process is killed the kernel does: only descriptors of the maker hold the
// namespaces. Their names in /run/netns are links to these descriptors. The next [Open] or [Sweep] with the same
// prefix removes dangling links. A name contains the process id and the start time of its maker,
//
//	banyan-4711-883920-7-0   PREFIX-PID-START-NETWORK-HOST
//
// and is free when no such process lives. Processes are never ended: one that still runs on a removed host keeps its
// namespace, without eth0, until it ends. Makers in different PID namespaces must not share /run/netns: each would
// take the other for dead.
//
// Floor 0. It imports nothing of Banyan's, and only harnesses, commands and tests import it.
package netns
