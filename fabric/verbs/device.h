// The part of package verbs in C: libibverbs, loaded at run time. All functions return 0 or an errno,
// unless stated otherwise. A device is used by one thread at a time, but for bn_fd.
#ifndef BANYAN_VERBS_DEVICE_H
#define BANYAN_VERBS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

// bn_memory is registered memory.
struct bn_memory {
	void *at;
	void *region;
	uint32_t key;
};

// bn_end is what one end of a queue pair says to the other.
struct bn_end {
	uint32_t qp, psn;
	uint16_t lid;
	uint8_t mtu, ethernet;
	uint8_t gid[16];
};

// bn_send is a message to be sent. signal asks for a completion with id, which stands for the earlier
// messages of the same queue pair as well.
struct bn_send {
	void *qp;
	void *at;
	uint64_t id;
	uint32_t length, key;
	uint8_t signal, inlined;
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

struct bn_device;

int bn_headers(void);                 // 1: built with the headers of libibverbs
const char *bn_load(void);            // loads the library; NULL, or why not
const char *bn_status(uint32_t status); // the name of a status
int bn_open(const char *name, int port, int gid, uint32_t receives, uint32_t completions, struct bn_device **out,
	const char **step);
void bn_close(struct bn_device *d);
int bn_fd(struct bn_device *d); // readable when a completion has come since bn_arm
int bn_arm(struct bn_device *d, int solicited); // solicited: only for messages and errors
void bn_drain(struct bn_device *d); // takes the events of bn_fd

int bn_memory_new(struct bn_device *d, size_t length, struct bn_memory *out);
void bn_memory_free(struct bn_memory *m, size_t length);

int bn_pair_new(struct bn_device *d, uint32_t psn, uint32_t sends, void **qp, struct bn_end *mine, uint32_t *inlined);
int bn_pair_join(struct bn_device *d, void *qp, uint32_t psn, const struct bn_end *theirs, int timeout, int retries,
	const char **step);
int bn_pair_fail(void *qp); // to the error state: nothing more is sent or received
void bn_pair_free(void *qp);

// bn_round posts buffers, then messages, and takes up to most completions. *posted is the number of messages that
// were posted; fewer: the error is returned, else 0. A negative *found: the completion queue is broken.
int bn_round(struct bn_device *d, const struct bn_receive *receives, int nreceives, const struct bn_send *sends, int nsends,
	struct bn_done *out, int most, int *posted, int *found);

#endif
