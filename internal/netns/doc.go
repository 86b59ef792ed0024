// Package netns makes small networks on one machine: N network namespaces, the
// hosts, joined by a bridge. Tests of transports and ftbench run --netns use
// them as machines whose links can be cut, slowed down and taken away.
//
//	n, err := netns.Open(netns.Config{Hosts: 4, RateMbit: 1000})
//	if err != nil { … }      // says which privilege or kernel option lacks
//	defer n.Close()
//	err = n.Start(0, cmd)    // like cmd.Start, on host 0
//	err = n.Do(1, func() error { l, err = net.Listen("tcp", …); return err })
//	err = n.Cut(0, 1)        // silence, both ways
//	err = n.Heal()
//
// [Net.Name] is known to iproute2 too: `ip netns exec NAME COMMAND`.
//
// # What a host is
//
// A host has lo and eth0, both up, with the addresses [Net.Addr] and [Net.Addr6]
// of a network that no other Net of this machine uses. The bridge lies in a
// namespace of its own. Nothing outside the namespaces made here is touched: the
// machine's own interfaces, routes and filters stay as they are, and no packet
// leaves. Only the network is separate, abstract Unix sockets included. Hosts
// share files, process ids and the host name, and /sys shows the machine's own
// devices, unless the command was started by ip netns exec, which mounts another.
//
// Neighbours are permanent entries, so there is no ARP and no neighbour
// discovery: an address is never found out to be unreachable. A cut therefore is
// what it is between networks, silence, and no EHOSTUNREACH after three seconds.
//
// # How frames are dropped
//
// By nftables, in the forward hook of the bridge: one rule looks up the pair
// (port in, port out) in a set, which each change replaces as a whole. It is
// silent, knows direction and peer whatever the protocol is, broadcasts
// included, lies outside the hosts, so that nothing that runs in one sees or
// undoes it, and costs nothing while nothing is cut, because the table is then
// gone. It works in a user namespace. The others were weighed: netem and the
// drop action of tc are modules that small kernels lack (netem knows no peers
// besides), and a queue that drops tells the sending TCP so; BPF on tc or XDP
// needs privileges of the whole machine, and XDP on veth turns off segmentation
// offload, which would change what is measured; unreachable routes send errors.
//
// Rates are a token bucket (tbf) at both ends of each link. Delay needs netem;
// without it [Open] fails and names the option.
//
// A cut or a healing takes about ten milliseconds, in which the kernel waits for
// all cores; it holds when the call returns. What had passed the bridge by then
// arrives.
//
// # Privileges
//
// CAP_SYS_ADMIN and CAP_NET_ADMIN; root has them. A user without them gets them
// in a user namespace, where the distribution allows that:
//
//	unshare -Urnm sh -c 'mount -t tmpfs run /run && COMMAND'
//
// /run is covered because the names are made in /run/netns, which is root's.
// The tests of this package pass there too. [Check] tells beforehand. No program
// is called. Tests that lack the privileges fail; with BANYAN_NO_NETNS=1 they print
// what was not tested and pass.
//
// # Who cleans up
//
// [Net.Close]; and where the process is killed, the kernel: nothing but descriptors of the maker holds the namespaces.
// Their names in /run/netns are links to these descriptors. Links that lead nowhere the next [Open] or [Sweep] removes
// with the same prefix. A name holds the process id and the start time of its maker,
//
//	banyan-4711-883920-7-0   PREFIX-PID-START-NETWORK-HOST
//
// and belongs to nobody when no such process lives. Processes are never ended:
// one that still runs on a removed host keeps its namespace, without eth0, until
// it ends. Makers in different PID namespaces must not share /run/netns: each
// would take the other for dead.
//
// Floor 0. It imports nothing of Banyan's, and only harnesses, commands and tests
// import it.
package netns
