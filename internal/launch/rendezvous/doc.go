// Package rendezvous lets ranks that were started one by one, without a
// launcher, find each other: by torchrun, Kubernetes or hand. The environment
// of each names its rank.
//
//	RANK, WORLD_SIZE              which rank, of how many
//	MASTER_PORT                   a TCP port that is free where rank 0 runs
//	MASTER_ADDR                   an address of that machine; default 127.0.0.1
//	LOCAL_RANK, LOCAL_WORLD_SIZE  optional: which ranks share a node
//	TORCHELASTIC_RUN_ID           optional: if set, the same in all ranks
//	BANYAN_SECRET_FILE            optional: see [SecretFileEnv]
//	BANYAN_INIT_TIMEOUT           optional: see [pmi.InitTimeoutEnv]
//
//	for r in 0 1 2; do
//		RANK=$r WORLD_SIZE=3 MASTER_PORT=29500 ./app &
//	done
//
// Rank 0 is the server: it serves PMI-1 to the others, the clients, over TCP.
// The port is open until rank 0 finalizes. A client tries to reach it until the
// time for a start-up is over. Then [Config.Connect] names rank 0 in a
// [*pmi.MissingError]. Rank 0 and the ranks that have come name the missing ones
// in the first fence. When rank 0 ends, failed or finalized, the others go on as
// without a launcher.
//
// MASTER_ADDR is an address of either family or a name. A name is resolved with
// every attempt, so it may begin to resolve late and may change; the first of its
// addresses that answers is taken. Rank 0 listens at all of them that are its
// machine's, and waits until there is one. A rank that has waited for five
// seconds prints the reason to standard error, once. Rank 0 alone may be
// given another MASTER_ADDR, such as 0.0.0.0, where the others reach it by an
// address that its machine does not have.
//
// A connection has five seconds and lines of 512 bytes to show that it is a rank:
// the version of the protocol, WORLD_SIZE, a rank that no other connection has,
// and TORCHELASTIC_RUN_ID. A rank that does not fit gets the reason, anything
// else is disconnected. This guards against accidents, not against attackers: a
// program that reaches the port and knows these words can pose as a rank. With
// BANYAN_SECRET_FILE both sides prove first that they know the secret (proof.go).
// The rest of the conversation is neither encrypted nor signed: an attacker that
// changes packets under way can disturb the start-up.
//
// Under torchrun itself MASTER_PORT is usually taken by its agent
// (TORCHELASTIC_USE_AGENT_STORE=True): give the program another one,
//
//	torchrun --nproc-per-node 4 --no-python sh -c 'MASTER_PORT=29511 exec ./app'
//
// Floor 2: it imports proc and launch/pmi.
package rendezvous
