// Package hosts starts the ranks of a job on other machines, through a remote shell such as ssh.
//
// The launcher starts one process on each host, the proxy ([Proxy]), which starts the ranks of its
// host. Launcher and ranks exchange everything over the standard streams of the remote shell, as
// frames (frame.go): PMI-1, output, input, signals, ends. There is no further port to open or to
// guard, and ssh encrypts the rest. Each stream of each rank has a window of its own, so unread
// output holds up the rank that prints and nothing else.
//
// No rank starts before all hosts are ready: their proxies have answered, found the program and the
// working directory. Output of a remote shell before its proxy answers is shown, or is part of the
// error if the proxy never does.
//
// When the launcher dies, the input of each proxy ends. Under [spawn.Abort] a proxy kills its
// ranks. Under [spawn.Continue] it stays, reads the output of the ranks, and closes their PMI-1
// connections: to the ranks the launcher has ended.
//
// When the remote shell or the proxy dies, the host and its ranks are reported as lost. Under Abort
// its ranks die: the kernel kills them with the proxy, or a proxy whose connection has ended does.
// Under Continue they go on alone. The launcher cannot distinguish a lost connection from a lost
// machine, so it does not start the ranks a second time.
//
// A connection that is silently dead is noticed by the remote shell or not at all:
// [DefaultShell] makes ssh probe every 15 seconds. On the host sshd must notice it
// (ClientAliveInterval).
//
// Floor 2: it imports internal/affinity, proc, launch/pmi and launch/spawn.
package hosts
