// Package testbed has no code in Go. Its script rdma-vm runs a command in virtual machines that have an RDMA device
// made of software, for tests of package verbs on hosts without an adapter; rdma-vm -h describes it. The tests of
// the script need the tag rdma and the programs that make rdma installs: make test-rdma-vm runs them.
//
// Floor 8.
package testbed
