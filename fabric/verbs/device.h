// The part of package verbs in C: libibverbs, loaded at run time. All functions return 0 or an errno,
// unless stated otherwise. A device is used by one thread at a time, but for bn_fd, bn_register and, unless it is of iWARP, bn_pair_free.
#ifndef BANYAN_VERBS_DEVICE_H
#define BANYAN_VERBS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "manager.h"

// bn_memory is registered memory: key is for this process, remote for peers that reach it.
struct bn_memory {
	void *at;
	void *region;
	uint32_t key, remote;
};

// bn_end is what one end of a queue pair says to the other.
struct bn_end {
	uint32_t qp, psn;
	uint16_t lid; // of iWARP, the TCP port
	uint8_t mtu, kind;
	uint8_t gid[16];         // of iWARP, the IP address
	uint8_t token[bn_token]; // of iWARP, what the peer shows when it connects
	uint64_t probed;         // of iWARP, memory that the peer's probes read, and its key
	uint32_t probed_key;
};

// The kinds of adapters.
enum { bn_infiniband, bn_roce, bn_iwarp };

// What a bn_send does: it sends a message, or writes to or reads from the peer's memory, or touches none.
enum { bn_message, bn_write, bn_get, bn_probe };

// bn_send is a message to be sent, or memory to be written or read. signal asks for a completion with id, which stands
// for the earlier ones of the same queue pair as well.
struct bn_send {
	void *qp;
	uint64_t at, id, remote;
	uint32_t length, key, remote_key;
	uint8_t what, signal, inlined;
};

// bn_receive is a buffer for a message.
struct bn_receive {
	void *at;
	uint64_t id;
	uint32_t length, key;
};

// bn_done is a completion. status is 0 for success, else that of ibv_wc.
struct bn_done {
	uint64_t id;
	uint32_t qp, length, status;
};

// bn_round is what one call posts and takes. A call does the most that it can, because the way into C and back
// takes longer than a look at the completion queue.
enum { bn_most = 32 };
struct bn_round {
	// The caller's: what is to be posted, and how often the completion queue is looked at before the call
	// ends without completions; 0: not at all.
	int32_t receiving, sending, looks;
	// The result: the number of messages posted; fewer than sending: the errno. A negative found: the completion
	// queue is broken. tick changes every few milliseconds.
	int32_t posted, err, found;
	int64_t tick;
	struct bn_device *device;
	struct bn_receive receives[bn_most];
	struct bn_send sends[bn_most];
	struct bn_done done[bn_most];
};

struct bn_device;

// bn_reads is the number of reads that the adapter of one queue pair has under way at once.
enum { bn_reads = 4 };

int bn_headers(void);                 // 1: built with the headers of libibverbs
const char *bn_load(void);            // loads the library; NULL, or why not
const char *bn_status(uint32_t status); // the name of a status
int bn_open(const char *name, int port, int gid, const uint8_t *address, uint32_t receives, uint32_t completions,
	struct bn_device **out, const char **step);
void bn_close(struct bn_device *d);
int bn_fd(struct bn_device *d); // readable when a completion has come since bn_arm
int bn_arm(struct bn_device *d, int solicited); // solicited: only for messages and errors
void bn_drain(struct bn_device *d); // takes the events of bn_fd
struct bn_manager *bn_links(struct bn_device *d); // of iWARP, else NULL

int bn_memory_new(struct bn_device *d, size_t length, struct bn_memory *out);
void bn_memory_free(struct bn_memory *m, size_t length);
// bn_register lets peers read memory, and with writes also write it.
int bn_register(struct bn_device *d, void *at, size_t length, int writes, struct bn_memory *out);
void bn_deregister(struct bn_memory *m);

// bn_pair_new makes a queue pair, with the psn and token of mine, and sets the rest of mine. reads: for reads alone.
int bn_pair_new(struct bn_device *d, uint32_t sends, int reads, void **qp, struct bn_end *mine, uint32_t *inlined);
// bn_pair_join joins a queue pair to that of a peer. With iWARP the pair is joined when the manager says so.
int bn_pair_join(struct bn_device *d, void *qp, uint32_t psn, const struct bn_end *theirs, int timeout, int retries,
	const char **step);
// bn_pair_connect has a queue pair of iWARP connect to that of a peer, which waits for it; or wait for that, where connects is 0.
int bn_pair_connect(void *qp, const struct bn_end *theirs, int connects, int timeout_ms, const char **step);
int bn_pair_fail(void *qp); // to the error state: nothing more is sent or received
void bn_pair_free(void *qp);

void bn_go(struct bn_round *r); // it may run on a stack of 256 KiB

#endif
