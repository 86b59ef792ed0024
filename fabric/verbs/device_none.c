//go:build cgo

// The functions of device.h in a build without the headers of libibverbs.

#include "device.h"

#if !defined(__linux__) || !__has_include(<infiniband/verbs.h>)

#include <errno.h>

int bn_headers(void) { return 0; }
const char *bn_load(void) { return "built without infiniband/verbs.h"; }
const char *bn_status(uint32_t status) { return ""; }
int bn_open(const char *name, int port, int gid, const uint8_t *address, uint32_t receives, uint32_t completions,
	struct bn_device **out, const char **step) {
	*step = "build";
	return ENOSYS;
}
void bn_close(struct bn_device *d) {}
int bn_fd(struct bn_device *d) { return -1; }
int bn_arm(struct bn_device *d, int solicited) { return ENOSYS; }
void bn_drain(struct bn_device *d) {}
struct bn_manager *bn_links(struct bn_device *d) { return NULL; }
int bn_memory_new(struct bn_device *d, size_t length, struct bn_memory *out) { return ENOSYS; }
void bn_memory_free(struct bn_memory *m, size_t length) {}
int bn_register(struct bn_device *d, void *at, size_t length, int writes, struct bn_memory *out) { return ENOSYS; }
void bn_deregister(struct bn_memory *m) {}
int bn_pair_new(struct bn_device *d, uint32_t psn, uint32_t sends, int reads, void **qp, struct bn_end *mine,
	uint32_t *inlined) {
	return ENOSYS;
}
int bn_pair_join(struct bn_device *d, void *qp, uint32_t psn, const struct bn_end *theirs, int timeout, int retries,
	const char **step) {
	*step = "build";
	return ENOSYS;
}
int bn_pair_connect(void *qp, const struct bn_end *theirs, int connects, int timeout_ms, const char **step) {
	return ENOSYS;
}
int bn_pair_fail(void *qp) { return ENOSYS; }
void bn_pair_free(void *qp) {}
void bn_go(struct bn_round *r) { r->posted = r->found = 0, r->err = ENOSYS; }

#endif
