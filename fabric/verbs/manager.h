// The connection manager for the queue pairs of iWARP adapters, by librdmacm, loaded at run time. They are connected over
// TCP, not by numbers that processes exchange. One thread at a time uses a manager.
#ifndef BANYAN_VERBS_MANAGER_H
#define BANYAN_VERBS_MANAGER_H

#include <stdint.h>

enum { bn_token = 16 };

struct bn_manager;
// bn_link is the connection of one queue pair. Its owner sets probed: memory of the peer, and its key.
struct bn_link {
	uint64_t probed;
	uint32_t probed_key;
	struct bn_manager *manager;
	struct bn_link *next;
	struct rdma_cm_id *id;
	uint32_t qp;
	int reads, timeout_ms;
	uint8_t mine[bn_token], theirs[bn_token];
};

// bn_change is the news of a connection: it is there, or has failed or ended, by an errno.
struct bn_change {
	uint32_t qp;
	int32_t up, err;
};

// bn_manager_open listens at an address of 16 bytes. NULL: step says why not, with errno.
struct bn_manager *bn_manager_open(const uint8_t *address, const char **step);
void bn_manager_close(struct bn_manager *m);
int bn_manager_fd(struct bn_manager *m); // readable when there is something to do
uint16_t bn_manager_port(struct bn_manager *m);
int bn_manager_next(struct bn_manager *m, struct bn_change *out); // 1: out is a change; 0: there is none

// bn_link_new has a peer that shows the token connect to a queue pair.
struct bn_link *bn_link_new(struct bn_manager *m, uint32_t qp, int reads, const uint8_t *token);
// bn_link_connect connects to a queue pair of a peer; the manager reports the end of it. 0, or an errno.
int bn_link_connect(struct bn_link *l, const uint8_t *address, uint16_t port, const uint8_t *token, int timeout_ms,
	const char **step);
void bn_link_free(struct bn_link *l);

#endif
