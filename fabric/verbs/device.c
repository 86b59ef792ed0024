//go:build cgo

#include "device.h"

#if defined(__linux__) && __has_include(<infiniband/verbs.h>)

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

// Two of these are macros of the header, too.
#undef ibv_reg_mr
#undef ibv_query_port

// lib has the functions that are called through the library; the others are inline and go through the context.
static struct {
	struct ibv_device **(*get_device_list)(int *);
	void (*free_device_list)(struct ibv_device **);
	const char *(*get_device_name)(struct ibv_device *);
	struct ibv_context *(*open_device)(struct ibv_device *);
	int (*close_device)(struct ibv_context *);
	int (*query_port)(struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *);
	int (*query_gid)(struct ibv_context *, uint8_t, int, union ibv_gid *);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *);
	int (*dealloc_pd)(struct ibv_pd *);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *, void *, size_t, int);
	int (*dereg_mr)(struct ibv_mr *);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *);
	int (*destroy_comp_channel)(struct ibv_comp_channel *);
	struct ibv_cq *(*create_cq)(struct ibv_context *, int, void *, struct ibv_comp_channel *, int);
	int (*destroy_cq)(struct ibv_cq *);
	int (*get_cq_event)(struct ibv_comp_channel *, struct ibv_cq **, void **);
	void (*ack_cq_events)(struct ibv_cq *, unsigned int);
	struct ibv_srq *(*create_srq)(struct ibv_pd *, struct ibv_srq_init_attr *);
	int (*destroy_srq)(struct ibv_srq *);
	struct ibv_qp *(*create_qp)(struct ibv_pd *, struct ibv_qp_init_attr *);
	int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
	int (*destroy_qp)(struct ibv_qp *);
	const char *(*wc_status_str)(enum ibv_wc_status);
} lib;

static const struct {
	const char *name;
	void *at;
} symbols[] = {
	{"ibv_get_device_list", &lib.get_device_list},
	{"ibv_free_device_list", &lib.free_device_list},
	{"ibv_get_device_name", &lib.get_device_name},
	{"ibv_open_device", &lib.open_device},
	{"ibv_close_device", &lib.close_device},
	{"ibv_query_port", &lib.query_port},
	{"ibv_query_gid", &lib.query_gid},
	{"ibv_alloc_pd", &lib.alloc_pd},
	{"ibv_dealloc_pd", &lib.dealloc_pd},
	{"ibv_reg_mr", &lib.reg_mr},
	{"ibv_dereg_mr", &lib.dereg_mr},
	{"ibv_create_comp_channel", &lib.create_comp_channel},
	{"ibv_destroy_comp_channel", &lib.destroy_comp_channel},
	{"ibv_create_cq", &lib.create_cq},
	{"ibv_destroy_cq", &lib.destroy_cq},
	{"ibv_get_cq_event", &lib.get_cq_event},
	{"ibv_ack_cq_events", &lib.ack_cq_events},
	{"ibv_create_srq", &lib.create_srq},
	{"ibv_destroy_srq", &lib.destroy_srq},
	{"ibv_create_qp", &lib.create_qp},
	{"ibv_modify_qp", &lib.modify_qp},
	{"ibv_destroy_qp", &lib.destroy_qp},
	{"ibv_wc_status_str", &lib.wc_status_str},
};

struct bn_device {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	int port, gid;
	int more; // access to all memory: the memory that a read of iWARP fills is written by the peer
	struct bn_manager *manager; // of iWARP, as the next two
	struct bn_memory sink;      // what probes read: the first bytes of a peer's sink, into the last ones of this
	struct ibv_mr *probed;      // the first bytes
	struct ibv_port_attr attr;
	union ibv_gid address;
};

enum { probe_bytes = 8 };

int bn_headers(void) { return 1; }
const char *bn_load(void) {
	static int loaded;
	if (loaded)
		return NULL;
	void *handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return dlerror();
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *found = dlsym(handle, symbols[i].name);
		if (!found)
			return dlerror();
		memcpy(symbols[i].at, &found, sizeof found);
	}
	loaded = 1;
	return NULL;
}

const char *bn_status(uint32_t status) { return lib.wc_status_str((enum ibv_wc_status)status); }

static struct ibv_context *open_named(const char *name) {
	int n;
	struct ibv_device **list = lib.get_device_list(&n);
	if (!list)
		return NULL;
	struct ibv_context *c = NULL;
	errno = ENODEV;
	for (int i = 0; i < n; i++)
		if (strcmp(lib.get_device_name(list[i]), name) == 0)
			c = lib.open_device(list[i]);
	int err = errno;
	lib.free_device_list(list);
	errno = err;
	return c;
}

// open_step is bn_open without its clean-up.
static const char *open_step(struct bn_device *d, const char *name, const uint8_t *address, uint32_t receives,
	uint32_t completions) {
	const char *step;
	if (!(d->context = open_named(name)))
		return "ibv_open_device";
	// The library fills the part that all versions have.
	memset(&d->attr, 0, sizeof d->attr);
	if ((errno = lib.query_port(d->context, d->port, (struct _compat_ibv_port_attr *)&d->attr)))
		return "ibv_query_port";
	if (d->context->device->transport_type == IBV_TRANSPORT_IWARP) {
		memcpy(d->address.raw, address, sizeof d->address.raw);
		d->more = IBV_ACCESS_REMOTE_WRITE;
		if (!(d->manager = bn_manager_open(address, &step)))
			return step;
	} else if (lib.query_gid(d->context, d->port, d->gid, &d->address)) {
		return "ibv_query_gid";
	}
	if (!(d->pd = lib.alloc_pd(d->context)))
		return "ibv_alloc_pd";
	if (d->manager && ((errno = bn_memory_new(d, 2 * probe_bytes, &d->sink)) ||
			!(d->probed = lib.reg_mr(d->pd, d->sink.at, probe_bytes, IBV_ACCESS_REMOTE_READ))))
		return "ibv_reg_mr";
	if (!(d->channel = lib.create_comp_channel(d->context)))
		return "ibv_create_comp_channel";
	int flags = fcntl(d->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(d->channel->fd, F_SETFL, flags | O_NONBLOCK))
		return "fcntl";
	if (!(d->cq = lib.create_cq(d->context, completions, NULL, d->channel, 0)))
		return "ibv_create_cq";
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = receives, .max_sge = 1}};
	if (!(d->srq = lib.create_srq(d->pd, &attr)))
		return "ibv_create_srq";
	return NULL;
}

int bn_open(const char *name, int port, int gid, const uint8_t *address, uint32_t receives, uint32_t completions,
	struct bn_device **out, const char **step) {
	struct bn_device *d = calloc(1, sizeof *d);
	if (!d)
		return ENOMEM;
	d->port = port, d->gid = gid;
	errno = 0;
	if ((*step = open_step(d, name, address, receives, completions))) {
		int err = errno ? errno : EIO;
		bn_close(d);
		return err;
	}
	*out = d;
	return 0;
}

void bn_close(struct bn_device *d) {
	if (d->manager)
		bn_manager_close(d->manager);
	if (d->probed)
		lib.dereg_mr(d->probed);
	if (d->sink.region)
		bn_memory_free(&d->sink, 2 * probe_bytes);
	if (d->srq)
		lib.destroy_srq(d->srq);
	if (d->cq)
		lib.destroy_cq(d->cq);
	if (d->channel)
		lib.destroy_comp_channel(d->channel);
	if (d->pd)
		lib.dealloc_pd(d->pd);
	if (d->context)
		lib.close_device(d->context);
	free(d);
}

struct bn_manager *bn_links(struct bn_device *d) { return d->manager; }
int bn_fd(struct bn_device *d) { return d->channel->fd; }
int bn_arm(struct bn_device *d, int solicited) { return ibv_req_notify_cq(d->cq, solicited); }

void bn_drain(struct bn_device *d) {
	struct ibv_cq *cq;
	void *context;
	unsigned int n = 0;
	while (lib.get_cq_event(d->channel, &cq, &context) == 0)
		n++;
	if (n)
		lib.ack_cq_events(d->cq, n);
}

int bn_memory_new(struct bn_device *d, size_t length, struct bn_memory *out) {
	out->at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (out->at == MAP_FAILED)
		return errno;
	madvise(out->at, length, MADV_DONTFORK);
	struct ibv_mr *mr = lib.reg_mr(d->pd, out->at, length, IBV_ACCESS_LOCAL_WRITE | d->more);
	if (!mr) {
		int err = errno;
		munmap(out->at, length);
		return err;
	}
	out->region = mr, out->key = mr->lkey;
	return 0;
}

void bn_memory_free(struct bn_memory *m, size_t length) {
	lib.dereg_mr(m->region);
	munmap(m->at, length);
}

int bn_register(struct bn_device *d, void *at, size_t length, int writes, struct bn_memory *out) {
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | (writes ? IBV_ACCESS_REMOTE_WRITE : d->more);
	struct ibv_mr *mr = lib.reg_mr(d->pd, at, length, access);
	if (!mr)
		return errno;
	*out = (struct bn_memory){.region = mr, .key = mr->lkey, .remote = mr->rkey};
	return 0;
}
void bn_deregister(struct bn_memory *m) { lib.dereg_mr(m->region); }

// init_pair makes a queue pair ready to be joined.
static int init_pair(struct bn_device *d, struct ibv_qp *qp, int reads, const uint8_t *token) {
	if (d->manager)
		return (qp->qp_context = bn_link_new(d->manager, qp->qp_num, bn_reads, token)) ? 0 : ENOMEM;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = d->port,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | (reads ? 0 : IBV_ACCESS_REMOTE_WRITE)};
	return lib.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int bn_pair_new(struct bn_device *d, uint32_t sends, int reads, void **out, struct bn_end *mine, uint32_t *inlined) {
	struct ibv_qp_init_attr init = {
		.send_cq = d->cq, .recv_cq = d->cq, .srq = d->srq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = sends, .max_send_sge = 1, .max_inline_data = reads ? 0 : 128},
	};
	struct ibv_qp *qp;
	while (!(qp = lib.create_qp(d->pd, &init)) && errno == EINVAL && init.cap.max_inline_data > 0)
		init.cap.max_inline_data = init.cap.max_inline_data > 64 ? 64 : 0; // what this adapter takes
	if (!qp)
		return errno;
	int err = init_pair(d, qp, reads, mine->token);
	if (err) {
		lib.destroy_qp(qp);
		return err;
	}
	mine->qp = qp->qp_num, mine->mtu = d->attr.active_mtu;
	mine->lid = d->manager ? bn_manager_port(d->manager) : d->attr.lid;
	mine->kind = d->manager ? bn_iwarp : d->attr.link_layer == IBV_LINK_LAYER_ETHERNET ? bn_roce : bn_infiniband;
	memcpy(mine->gid, d->address.raw, sizeof mine->gid);
	if (d->probed)
		mine->probed = (uintptr_t)d->sink.at, mine->probed_key = d->probed->rkey;
	*inlined = init.cap.max_inline_data;
	*out = qp;
	return 0;
}

int bn_pair_connect(void *pair, const struct bn_end *theirs, int connects, int timeout_ms, const char **step) {
	struct bn_link *l = ((struct ibv_qp *)pair)->qp_context;
	l->probed = theirs->probed, l->probed_key = theirs->probed_key;
	return connects ? bn_link_connect(l, theirs->gid, theirs->lid, theirs->token, timeout_ms, step) : 0;
}

int bn_pair_join(struct bn_device *d, void *pair, uint32_t psn, const struct bn_end *theirs, int timeout, int retries,
	const char **step) {
	struct ibv_qp *qp = pair;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = theirs->mtu < d->attr.active_mtu ? theirs->mtu : d->attr.active_mtu,
		.dest_qp_num = theirs->qp, .rq_psn = theirs->psn, .max_dest_rd_atomic = bn_reads, .min_rnr_timer = 12,
		.ah_attr = {.dlid = theirs->lid, .port_num = d->port},
	};
	if (d->attr.link_layer == IBV_LINK_LAYER_ETHERNET || theirs->lid == 0) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.sgid_index = d->gid;
		attr.ah_attr.grh.hop_limit = 64;
		memcpy(attr.ah_attr.grh.dgid.raw, theirs->gid, sizeof theirs->gid);
	}
	*step = "ibv_modify_qp to RTR";
	int err = lib.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (err)
		return err;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = retries, .rnr_retry = 7, .sq_psn = psn, .max_rd_atomic = bn_reads,
	};
	*step = "ibv_modify_qp to RTS";
	return lib.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		IBV_QP_MAX_QP_RD_ATOMIC);
}

int bn_pair_fail(void *qp) {
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	return lib.modify_qp(qp, &attr, IBV_QP_STATE);
}
void bn_pair_free(void *qp) {
	struct bn_link *link = ((struct ibv_qp *)qp)->qp_context;
	lib.destroy_qp(qp);
	if (link)
		bn_link_free(link);
}

static int64_t now_ns(clockid_t clock) {
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int post_receives(struct bn_device *d, const struct bn_receive *list, int n) {
	struct ibv_sge sge[bn_most];
	struct ibv_recv_wr wr[bn_most], *bad;
	for (int i = 0; i < n; i++) {
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)list[i].at, .length = list[i].length, .lkey = list[i].key};
		wr[i] = (struct ibv_recv_wr){.wr_id = list[i].id, .sg_list = &sge[i], .num_sge = 1};
		if (i > 0)
			wr[i - 1].next = &wr[i];
	}
	return n > 0 ? ibv_post_srq_recv(d->srq, wr, &bad) : 0;
}

static enum ibv_wr_opcode opcode(const struct bn_send *s) {
	switch (s->what) {
	case bn_write:
	case bn_probe:
		return IBV_WR_RDMA_WRITE;
	case bn_get:
		return IBV_WR_RDMA_READ;
	}
	return IBV_WR_SEND;
}

// probe_by_reading has a probe of iWARP read, as a write is complete there before it has arrived. It reads some bytes because Linux's siw
// answers a read without bytes by those of its last message.
static void probe_by_reading(struct bn_device *d, const struct bn_send *s, struct ibv_sge *sge, struct ibv_send_wr *wr) {
	const struct bn_link *l = ((struct ibv_qp *)s->qp)->qp_context;
	*sge = (struct ibv_sge){.addr = (uintptr_t)d->sink.at + probe_bytes, .length = probe_bytes, .lkey = d->sink.key};
	wr->opcode = IBV_WR_RDMA_READ, wr->num_sge = 1;
	wr->wr.rdma.remote_addr = l->probed, wr->wr.rdma.rkey = l->probed_key;
}

// post_sends posts the messages of each series for one queue pair with one doorbell. A message that another one
// follows at once has an immediate, so that the receiver takes them together; iWARP has none.
static int post_sends(struct bn_device *d, const struct bn_send *list, int n, int32_t *posted) {
	struct ibv_sge sge[bn_most];
	struct ibv_send_wr wr[bn_most], *bad;
	for (int i = 0; i < n;) {
		int k = 0;
		for (; i + k < n && list[i + k].qp == list[i].qp; k++) {
			const struct bn_send *s = &list[i + k];
			sge[k] = (struct ibv_sge){.addr = s->at, .length = s->length, .lkey = s->key};
			wr[k] = (struct ibv_send_wr){
				.wr_id = s->id, .sg_list = &sge[k], .num_sge = s->length > 0, .opcode = opcode(s),
				.send_flags = (s->signal ? IBV_SEND_SIGNALED : 0) | (s->inlined ? IBV_SEND_INLINE : 0) |
					(s->what == bn_message ? IBV_SEND_SOLICITED : 0),
				.wr.rdma = {.remote_addr = s->remote, .rkey = s->remote_key},
			};
			if (d->manager && s->what == bn_probe)
				probe_by_reading(d, s, &sge[k], &wr[k]);
			if (k > 0) {
				wr[k - 1].next = &wr[k];
				if (!d->manager && wr[k - 1].opcode == IBV_WR_SEND && s->what == bn_message)
					wr[k - 1].opcode = IBV_WR_SEND_WITH_IMM;
			}
		}
		int err = ibv_post_send(list[i].qp, wr, &bad);
		if (err) {
			*posted = bad >= wr && bad < wr + k ? i + (int)(bad - wr) : i; // libsiw names none if the pair is not connected
			return err;
		}
		i += k;
		*posted = i;
	}
	return 0;
}

// take takes completions. Where the last one is of a message that another one follows, it waits for that a
// moment: the peer's adapter is sending it.
static int take(struct ibv_cq *cq, struct ibv_wc *wc, int looks) {
	enum { moment = 1024 };
	int found = 0;
	while (looks-- > 0 && found < bn_most) {
		int n = ibv_poll_cq(cq, bn_most - found, wc + found);
		if (n < 0)
			return n;
		if (n == 0)
			continue;
		found += n;
		const struct ibv_wc *last = &wc[found - 1];
		int more = last->status == IBV_WC_SUCCESS && last->opcode & IBV_WC_RECV && last->wc_flags & IBV_WC_WITH_IMM;
		looks = more ? moment : 0;
	}
	return found;
}

void bn_go(struct bn_round *r) {
	struct bn_device *d = r->device;
	r->posted = 0;
	r->err = post_receives(d, r->receives, r->receiving);
	if (!r->err && r->sending > 0)
		r->err = post_sends(d, r->sends, r->sending, &r->posted);
	r->tick = now_ns(CLOCK_MONOTONIC_COARSE);
	struct ibv_wc wc[bn_most];
	r->found = take(d->cq, wc, r->looks);
	for (int i = 0; i < r->found; i++)
		r->done[i] = (struct bn_done){
			.id = wc[i].wr_id, .qp = wc[i].qp_num, .status = wc[i].status,
			.length = wc[i].status == IBV_WC_SUCCESS ? wc[i].byte_len : 0,
		};
}

#endif
