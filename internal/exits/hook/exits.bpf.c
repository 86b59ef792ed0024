//go:build ignore

// The programs that record how registered processes end. doc.go says at which tracepoints they run and why.
// Places of fields are those of the running kernel: the loader relocates them (CO-RE), so these structures
// name only what is read.

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define KERNEL __attribute__((preserve_access_index))

struct ns_common {
	u32 inum;
} KERNEL;

struct pid_namespace {
	struct ns_common ns;
} KERNEL;

struct upid {
	int nr;
	struct pid_namespace *ns;
} KERNEL;

struct pid {
	u32 level;
	struct upid numbers[1];
} KERNEL;

enum pid_type { PIDTYPE_PID, PIDTYPE_TGID };

struct count {
	int counter;
} KERNEL;

struct signal_struct {
	struct count live;
	u32 flags;
	s32 group_exit_code;
	struct pid *pids[4];
} KERNEL;

struct task_struct {
	struct signal_struct *signal;
	struct task_struct *group_leader;
	s32 exit_code;
	u32 tgid;
} KERNEL;

// Kernel helpers, by their numbers in linux/bpf.h.
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static u64 (*const get_current_task)(void) = (void *)35;
static long (*const probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;

#define MAP_HASH 1
#define MAP_ARRAY 2
#define MAP_RINGBUF 27
#define F_MMAPABLE (1 << 10)
#define RB_FORCE_WAKEUP 2
#define SIGNAL_GROUP_EXIT 4

// The log, as package exits lays it out.
#define ENTRIES 16384
#define REPLACED (-4)
#define MOST_EXECS 3

struct entry {
	u64 seq; // 0 while it is written, else its number plus one
	u32 pid; // in the loader's pid namespace
	u32 inner; // in its own
	u32 space; // which that is
	s32 status;
	u64 time;
};

struct log {
	u64 magic;
	u32 space;
	u8 unused[52];
	u64 head; // the number of the next entry
	u8 unused2[56];
	struct entry entries[ENTRIES];
};

#define NUMBER(name, value) int(*name)[value]
#define TYPE(name, value) value *name

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1);
	NUMBER(map_flags, F_MMAPABLE);
	TYPE(key, u32);
	TYPE(value, struct log);
} banyan_exits SEC(".maps");

// The loader sets its size.
struct {
	NUMBER(type, MAP_RINGBUF);
} banyan_bell SEC(".maps");

// Registered processes by pid: LIVE_SEEN and how often each has called exec. The loader sets its size.
struct {
	NUMBER(type, MAP_HASH);
	TYPE(key, u32);
	TYPE(value, u32);
} banyan_live SEC(".maps");

#define LIVE_SEEN 1 // the process's name in its own namespace is known
#define LIVE_EXEC 2 // one call of exec

// Set by the loader before the programs are loaded.
const volatile u32 loader_space;    // inode of its pid namespace
const volatile u32 loader_level;    // the depth of that
const volatile u8 group_dead_passed; // sched_process_exit has the argument group_dead

char program_license[] SEC("license") = "Dual BSD/GPL";

// name is a process's pid in a namespace.
struct name {
	u32 pid, space;
};

// own_pid reads the address of a process's struct pid. It and what it leads to are read by address: places
// in its array depend on the depth, and direct loads have constant places only.
INLINE u64 own_pid(struct signal_struct *signal)
{
	u64 pid = 0;
	u64 tgid = __builtin_preserve_enum_value(*(enum pid_type *)PIDTYPE_TGID, 1);

	probe_read_kernel(&pid, sizeof(pid), &signal->pids[tgid]);
	return pid;
}

INLINE u32 depth(u64 pid)
{
	u32 level = 0;

	probe_read_kernel(&level, sizeof(level), &((struct pid *)pid)->level);
	return level;
}

INLINE struct name name_at(u64 pid, u32 level)
{
	struct name n = {};
	u64 ns = 0;
	u64 size = __builtin_preserve_type_info(*(struct upid *)0, 1);
	struct upid *u = (void *)((u64)&((struct pid *)pid)->numbers + level * size);

	probe_read_kernel(&n.pid, sizeof(n.pid), &u->nr);
	probe_read_kernel(&ns, sizeof(ns), &u->ns);
	probe_read_kernel(&n.space, sizeof(n.space), &((struct pid_namespace *)ns)->ns.inum);
	return n;
}

// outer_pid is the pid of a process in the loader's namespace, 0 if it has none there.
INLINE u32 outer_pid(struct task_struct *task)
{
	if (!loader_level)
		return task->tgid;
	u64 pid = own_pid(task->signal);
	if (depth(pid) < loader_level)
		return 0;
	struct name n = name_at(pid, loader_level);
	return n.space == loader_space ? n.pid : 0; // other namespaces have the same depth
}

// append writes an entry and rings the bell. A full bell is no error: the log has the entry.
INLINE int append(u32 pid, struct name n, s32 status)
{
	u32 zero = 0;
	struct log *log = map_lookup(&banyan_exits, &zero);
	if (!log)
		return 0;
	u64 time = ktime_get_ns();
	u64 number = __sync_fetch_and_add(&log->head, 1);
	struct entry *e = &log->entries[number & (ENTRIES - 1)];

	__sync_lock_test_and_set(&e->seq, 0);
	e->pid = pid;
	e->inner = n.pid;
	e->space = n.space;
	e->status = status;
	e->time = time;
	__sync_lock_test_and_set(&e->seq, number + 1);

	u64 word = 0;
	ringbuf_output(&banyan_bell, &word, sizeof(word), RB_FORCE_WAKEUP);
	return 0;
}

// append_of is append for a registered process. All entries of a process have the same names.
INLINE int append_of(struct task_struct *task, u32 pid, u32 live, s32 status)
{
	struct name n = {};

	if (live & LIVE_SEEN) {
		u64 own = own_pid(task->signal);
		n = name_at(own, depth(own));
	}
	return append(pid, n, status);
}

// record writes the end of a process, if it is registered.
INLINE int record(struct task_struct *task, struct signal_struct *signal)
{
	u32 pid = outer_pid(task);
	u32 *found = map_lookup(&banyan_live, &pid); // takes no lock
	if (!found)
		return 0;
	u32 live = *found;

	if (map_delete(&banyan_live, &pid)) // of all that see the process end only one deletes
		return 0;
	// As wait(2) has it: the process's status if it ends as a whole, else that of its first thread. The kernel
	// stores the flag and then the status under a lock that threads do not hold here: so both are read late.
	s32 status = (signal->flags & SIGNAL_GROUP_EXIT) ? signal->group_exit_code : task->group_leader->exit_code;
	return append_of(task, pid, live, status);
}

struct request {
	u32 pid, inner, space;
	s32 status;
};

// banyan_register appends an entry for the loader: a frozen log can be written by programs only.
SEC("syscall")
int banyan_register(struct request *r)
{
	struct name n = {r->inner, r->space};

	return append(r->pid, n, r->status);
}

// banyan_exit runs when a thread exits. The end of the process is certain when the exit of all threads has been
// decided. Exec from another thread decides nothing, although it ends the others. Older kernels decide nothing
// either where there is one thread: then the last one counts.
SEC("tp_btf/sched_process_exit")
int banyan_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct signal_struct *signal = task->signal;

	if (!(signal->flags & SIGNAL_GROUP_EXIT)) {
		if (group_dead_passed) {
			u64 dead = *(volatile u64 *)&ctx[1];
			if (!(dead & 0xff))
				return 0;
		} else if (signal->live.counter) {
			return 0;
		}
	}
	return record(task, signal);
}

// banyan_signal runs in the sender of a signal, which holds the lock of the target's signals. If the signal ends
// the process at once, the sender has decided the exit of all threads by now. The flag is better evidence
// than the signal's number and result: SIGKILL to a thread that has ended ends no process, and SIGTERM may be fatal.
SEC("tp_btf/signal_generate")
int banyan_signal(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[2];
	struct signal_struct *signal = task->signal;

	if (!(signal->flags & SIGNAL_GROUP_EXIT))
		return 0;
	return record(task, signal);
}

// banyan_exec runs when a process calls exec: at sched_prepare_exec (Linux 6.10) before the first of its threads is
// ended and when nothing can undo the call, before that at sched_process_exec. One thread of a process does at a time.
SEC("tp_btf/sched_prepare_exec")
int banyan_exec(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 pid = outer_pid(task);
	u32 *live = map_lookup(&banyan_live, &pid);

	if (!live || *live >= MOST_EXECS * LIVE_EXEC)
		return 0;
	*live += LIVE_EXEC;
	return append_of(task, pid, *live, REPLACED);
}

// banyan_level returns the depth of the caller's pid namespace.
SEC("raw_tp")
int banyan_level(void *ctx)
{
	struct task_struct *task = (void *)get_current_task();
	u64 signal = 0;

	probe_read_kernel(&signal, sizeof(signal), &task->signal);
	return depth(own_pid((struct signal_struct *)signal));
}
