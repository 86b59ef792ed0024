//go:build cgo

#include "manager.h"

#if defined(__linux__) && __has_include(<infiniband/verbs.h>) && __has_include(<rdma/rdma_cma.h>)

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

static struct {
	struct rdma_event_channel *(*create_event_channel)(void);
	void (*destroy_event_channel)(struct rdma_event_channel *);
	int (*create_id)(struct rdma_event_channel *, struct rdma_cm_id **, void *, enum rdma_port_space);
	int (*destroy_id)(struct rdma_cm_id *);
	int (*bind_addr)(struct rdma_cm_id *, struct sockaddr *);
	int (*listen)(struct rdma_cm_id *, int);
	__be16 (*get_src_port)(struct rdma_cm_id *);
	int (*resolve_addr)(struct rdma_cm_id *, struct sockaddr *, struct sockaddr *, int);
	int (*resolve_route)(struct rdma_cm_id *, int);
	int (*connect)(struct rdma_cm_id *, struct rdma_conn_param *);
	int (*accept)(struct rdma_cm_id *, struct rdma_conn_param *);
	int (*reject)(struct rdma_cm_id *, const void *, uint8_t);
	int (*get_cm_event)(struct rdma_event_channel *, struct rdma_cm_event **);
	int (*ack_cm_event)(struct rdma_cm_event *);
} cm;

static const struct {
	const char *name;
	void *at;
} symbols[] = {
	{"rdma_create_event_channel", &cm.create_event_channel},
	{"rdma_destroy_event_channel", &cm.destroy_event_channel},
	{"rdma_create_id", &cm.create_id},
	{"rdma_destroy_id", &cm.destroy_id},
	{"rdma_bind_addr", &cm.bind_addr},
	{"rdma_listen", &cm.listen},
	{"rdma_get_src_port", &cm.get_src_port},
	{"rdma_resolve_addr", &cm.resolve_addr},
	{"rdma_resolve_route", &cm.resolve_route},
	{"rdma_connect", &cm.connect},
	{"rdma_accept", &cm.accept},
	{"rdma_reject", &cm.reject},
	{"rdma_get_cm_event", &cm.get_cm_event},
	{"rdma_ack_cm_event", &cm.ack_cm_event},
};

struct bn_manager {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct sockaddr_storage address;
	struct bn_link *links;
};

static int load(void) {
	static int loaded;
	if (loaded)
		return 1;
	void *handle = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; handle && i < sizeof symbols / sizeof *symbols; i++) {
		void *found = dlsym(handle, symbols[i].name);
		if (!found)
			return 0;
		memcpy(symbols[i].at, &found, sizeof found);
	}
	return loaded = handle != NULL;
}

// fill makes a socket address of 16 bytes of IPv6, or IPv4 within it, and a port.
static void fill(struct sockaddr_storage *out, const uint8_t *address, uint16_t port) {
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	memset(out, 0, sizeof *out);
	if (memcmp(address, mapped, sizeof mapped) == 0) {
		struct sockaddr_in *v4 = (struct sockaddr_in *)out;
		v4->sin_family = AF_INET, v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, address + sizeof mapped, sizeof v4->sin_addr);
		return;
	}
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	v6->sin6_family = AF_INET6, v6->sin6_port = htons(port);
	memcpy(&v6->sin6_addr, address, sizeof v6->sin6_addr);
}

// listens makes the listener, with a port that the manager chooses.
static const char *listens(struct bn_manager *m) {
	if (cm.create_id(m->channel, &m->listener, NULL, RDMA_PS_TCP))
		return "rdma_create_id";
	if (cm.bind_addr(m->listener, (struct sockaddr *)&m->address))
		return "rdma_bind_addr";
	return cm.listen(m->listener, 128) ? "rdma_listen" : NULL;
}

static const char *open_step(struct bn_manager *m) {
	if (!(m->channel = cm.create_event_channel()))
		return "rdma_create_event_channel";
	int flags = fcntl(m->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(m->channel->fd, F_SETFL, flags | O_NONBLOCK))
		return "fcntl";
	const char *step = listens(m);
	// The manager knows nothing of the ports that sockets use: another one.
	for (int tries = 0; step && m->listener && errno == EADDRINUSE && tries < 100; tries++) {
		cm.destroy_id(m->listener);
		m->listener = NULL;
		step = listens(m);
	}
	return step;
}

struct bn_manager *bn_manager_open(const uint8_t *address, const char **step) {
	*step = "loading librdmacm (librdmacm1, rdma-core), which iWARP needs";
	errno = ENOENT;
	if (!load())
		return NULL;
	struct bn_manager *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	fill(&m->address, address, 0);
	if ((*step = open_step(m))) {
		int err = errno;
		bn_manager_close(m);
		errno = err;
		return NULL;
	}
	return m;
}

void bn_manager_close(struct bn_manager *m) {
	if (m->listener)
		cm.destroy_id(m->listener);
	if (m->channel)
		cm.destroy_event_channel(m->channel);
	free(m);
}

int bn_manager_fd(struct bn_manager *m) { return m->channel->fd; }
uint16_t bn_manager_port(struct bn_manager *m) { return ntohs(cm.get_src_port(m->listener)); }

struct bn_link *bn_link_new(struct bn_manager *m, uint32_t qp, int reads, const uint8_t *token) {
	struct bn_link *l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	l->manager = m, l->qp = qp, l->reads = reads;
	memcpy(l->mine, token, bn_token);
	l->next = m->links, m->links = l;
	return l;
}

int bn_link_connect(struct bn_link *l, const uint8_t *address, uint16_t port, const uint8_t *token, int timeout_ms,
	const char **step) {
	struct sockaddr_storage to;
	fill(&to, address, port);
	memcpy(l->theirs, token, bn_token);
	l->timeout_ms = timeout_ms;
	*step = "rdma_create_id";
	if (cm.create_id(l->manager->channel, &l->id, l, RDMA_PS_TCP))
		return errno;
	*step = "rdma_resolve_addr";
	struct sockaddr *from = (struct sockaddr *)&l->manager->address;
	return cm.resolve_addr(l->id, from, (struct sockaddr *)&to, timeout_ms) ? errno : 0;
}

void bn_link_free(struct bn_link *l) {
	struct bn_link **at = &l->manager->links;
	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	if (l->id)
		cm.destroy_id(l->id);
	free(l);
}

static struct rdma_conn_param parameters(struct bn_link *l) {
	return (struct rdma_conn_param){.responder_resources = l->reads, .initiator_depth = l->reads, .qp_num = l->qp, .srq = 1};
}

// shown is the link whose token a peer shows, or NULL. The comparison takes the same time whatever the token.
static struct bn_link *shown(struct bn_manager *m, const struct rdma_conn_param *by) {
	if (by->private_data_len < bn_token)
		return NULL;
	for (struct bn_link *l = m->links; l; l = l->next) {
		uint8_t different = 0;
		for (int i = 0; i < bn_token; i++)
			different |= l->mine[i] ^ ((const uint8_t *)by->private_data)[i];
		if (!different)
			return l->id ? NULL : l;
	}
	return NULL;
}

// What an event leads to: nothing, a change of a connection, or the end of its own id.
enum { nothing, change, end };

// request accepts a peer that shows a token, and no other.
static int request(struct bn_manager *m, struct rdma_cm_event *e) {
	struct bn_link *l = shown(m, &e->param.conn);
	if (l) {
		struct rdma_conn_param p = parameters(l);
		e->id->context = l;
		if (cm.accept(e->id, &p) == 0) {
			l->id = e->id;
			return nothing;
		}
	}
	cm.reject(e->id, NULL, 0);
	return end;
}

// next_step takes the next step of a connection that this side makes; an errno if it fails.
static int next_step(struct bn_link *l, enum rdma_cm_event_type after) {
	if (after == RDMA_CM_EVENT_ADDR_RESOLVED)
		return cm.resolve_route(l->id, l->timeout_ms) ? errno : 0;
	struct rdma_conn_param p = parameters(l);
	p.private_data = l->theirs, p.private_data_len = bn_token;
	return cm.connect(l->id, &p) ? errno : 0;
}

// handle handles an event.
static int handle(struct bn_manager *m, struct rdma_cm_event *e, struct bn_change *out) {
	struct bn_link *l = e->id->context;
	int err = e->status < 0 ? -e->status : e->status;
	switch (e->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return request(m, e);
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (!l || !(err = next_step(l, e->event)))
			return nothing;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (l)
			*out = (struct bn_change){.qp = l->qp, .up = 1};
		return l ? change : nothing;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		return nothing;
	default: // it has failed or ended
		break;
	}
	if (l)
		*out = (struct bn_change){.qp = l->qp, .err = err ? err : ECONNRESET};
	return l ? change : nothing;
}

int bn_manager_next(struct bn_manager *m, struct bn_change *out) {
	struct rdma_cm_event *e;
	while (cm.get_cm_event(m->channel, &e) == 0) {
		struct rdma_cm_id *id = e->id;
		int leads = handle(m, e, out);
		cm.ack_cm_event(e);
		if (leads == end)
			cm.destroy_id(id);
		if (leads == change)
			return 1;
	}
	return 0;
}

#elif defined(__linux__)

#include <errno.h>
#include <stddef.h>

struct bn_manager *bn_manager_open(const uint8_t *address, const char **step) {
	*step = "built without rdma/rdma_cma.h (librdmacm-dev, rdma-core-devel), which iWARP needs";
	errno = ENOSYS;
	return NULL;
}
void bn_manager_close(struct bn_manager *m) {}
int bn_manager_fd(struct bn_manager *m) { return -1; }
uint16_t bn_manager_port(struct bn_manager *m) { return 0; }
int bn_manager_next(struct bn_manager *m, struct bn_change *out) { return 0; }
struct bn_link *bn_link_new(struct bn_manager *m, uint32_t qp, int reads, const uint8_t *token) { return NULL; }
int bn_link_connect(struct bn_link *l, const uint8_t *address, uint16_t port, const uint8_t *token, int timeout_ms,
	const char **step) {
	return ENOSYS;
}
void bn_link_free(struct bn_link *l) {}

#endif
