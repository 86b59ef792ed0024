/* A ping-pong, a window, a matching benchmark and operations on memory, on MPI,
 * on command.
 *
 * usage: peer DIR CPU0 CPU1
 *
 * Rank r runs on CPUr and reads lines "TEST SIZE WINDOW WARMUP ITERS" from the
 * FIFO DIR/cmd.r. Rank 0 writes "ready WORDS" once and then "ok NANOSECONDS" or
 * "err WORDS" for each line to DIR/reply. End of file ends both. Between
 * samples a rank sleeps in read(2): an idle peer takes no time from the one
 * that is being measured.
 *
 *   lat  ITERS round trips of SIZE bytes, MPI_Send and MPI_Recv
 *   bw   ITERS windows of WINDOW MPI_Isend, answered by one byte
 *   posted, unexpected   ITERS batches of matches with the last of SIZE entries
 *   put, get, fop   ITERS operations of rank 0 on the memory of rank 1, each
 *        with MPI_Win_flush; fop is MPI_Fetch_and_op of 8 bytes
 *   putbw   ITERS windows of WINDOW MPI_Put, each with a flush
 *   lock, lockx   ITERS times MPI_Win_lock by rank 0 of the memory of rank 1, shared
 *        or exclusive, and MPI_Win_unlock
 *
 * The loops are those of bench/osu, one buffer per side, page aligned, and those
 * of bench/match.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SPAN = 64 << 20, MAX_BYTES = 8 << 20, MAX_WINDOW = 1024, MAX_ENTRIES = 1 << 20, PAGE = 4096 };

/* Of bench/match: matches in an iteration, and the tags. */
enum {
    BATCH = 10,
    TAG_GO = 2,
    TAG_MARK = 3,
    TAG_WAITING = 1 << 21,
    TAG_BATCH = 1 << 22,
    BATCH_TAGS = (1 << 16) / BATCH * BATCH
};

static int rank;
static char *sbuf, *rbuf, ack[1];
static MPI_Request reqs[MAX_WINDOW];

static void die(const char *what) {
    fprintf(stderr, "peer: rank %d: %s\n", rank, what);
    exit(1);
}

/* Before MPI_Init, so that everything that it allocates is where it is used. */
static void pin(char **argv) {
    const char *r = getenv("OMPI_COMM_WORLD_RANK");
    if (r == NULL) r = getenv("PMI_RANK");
    if (r == NULL) die("neither OMPI_COMM_WORLD_RANK nor PMI_RANK is set: start with mpiexec");
    rank = atoi(r);
    if (rank < 0 || rank > 1) die("two ranks are needed");
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(argv[2 + rank]), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) die("sched_setaffinity failed");
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void ping_pong(int size, long iters) {
    for (long i = 0; i < iters; i++) {
        if (rank == 0) {
            MPI_Send(sbuf, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(rbuf, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(rbuf, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(sbuf, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
    }
}

static void windows(int size, int window, long iters) {
    for (long i = 0; i < iters; i++) {
        if (rank == 0) {
            for (int k = 0; k < window; k++)
                MPI_Isend(sbuf, size, MPI_CHAR, 1, 100, MPI_COMM_WORLD, &reqs[k]);
            MPI_Waitall(window, reqs, MPI_STATUSES_IGNORE);
            MPI_Recv(ack, 1, MPI_CHAR, 1, 101, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            for (int k = 0; k < window; k++)
                MPI_Irecv(rbuf, size, MPI_CHAR, 0, 100, MPI_COMM_WORLD, &reqs[k]);
            MPI_Waitall(window, reqs, MPI_STATUSES_IGNORE);
            MPI_Send(ack, 1, MPI_CHAR, 0, 101, MPI_COMM_WORLD);
        }
    }
}

/* The queue: what waits on rank 0, and the batch at its end. */
static MPI_Request *waiting;
static long long *entries, batch[BATCH];
static int sequence;

static void send_word(long long word, int tag) { MPI_Send(&word, 8, MPI_CHAR, 1 - rank, tag, MPI_COMM_WORLD); }

static void recv_word(long long *word, int tag) {
    MPI_Recv(word, 8, MPI_CHAR, 1 - rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Each message says its tag. */
static void check(long long got, int tag) {
    if (got != tag) die("a receive got the message of another tag");
}

static void check_batch(int tag) {
    for (int i = 0; i < BATCH; i++) check(batch[i], tag + i);
}

static int next_tags(void) {
    sequence += BATCH;
    return TAG_BATCH + sequence % BATCH_TAGS;
}

static void queue_memory(void) {
    if (waiting != NULL) return;
    int *most, found;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
    if (!found || *most < TAG_BATCH + BATCH_TAGS + BATCH) die("this MPI has too few tags");
    waiting = malloc(MAX_ENTRIES * sizeof *waiting);
    entries = calloc(MAX_ENTRIES, sizeof *entries);
    if (waiting == NULL || entries == NULL) die("no memory");
}

static double posted_loop(long iters) {
    MPI_Request batch_reqs[BATCH];
    long long word = 0;
    int tag = 0;
    double start = now_ns();
    for (long k = 0; k < iters; k++) {
        tag = next_tags();
        if (rank == 0) {
            for (int i = 0; i < BATCH; i++)
                MPI_Irecv(&batch[i], 8, MPI_CHAR, 1, tag + i, MPI_COMM_WORLD, &batch_reqs[i]);
            send_word(0, TAG_GO);
            MPI_Waitall(BATCH, batch_reqs, MPI_STATUSES_IGNORE);
        } else {
            recv_word(&word, TAG_GO);
            for (int i = BATCH - 1; i >= 0; i--) send_word(tag + i, tag + i);
        }
    }
    double elapsed = now_ns() - start;
    if (rank == 0 && iters > 0) check_batch(tag);
    return elapsed;
}

static double posted(int size, long warmup, long iters) {
    int n = size - BATCH;
    queue_memory();
    for (int i = 0; rank == 0 && i < n; i++)
        MPI_Irecv(&entries[i], 8, MPI_CHAR, 1, TAG_WAITING + i, MPI_COMM_WORLD, &waiting[i]);
    posted_loop(warmup);
    double elapsed = posted_loop(iters);
    if (rank == 1) {
        for (int i = 0; i < n; i++) send_word(TAG_WAITING + i, TAG_WAITING + i);
        return elapsed;
    }
    MPI_Waitall(n, waiting, MPI_STATUSES_IGNORE);
    for (int i = 0; i < n; i++) check(entries[i], TAG_WAITING + i);
    return elapsed;
}

/* Only the receives are in the time: when the mark is there, so is the batch. */
static double unexpected_loop(long iters) {
    long long word = 0;
    double elapsed = 0;
    for (long k = 0; k < iters; k++) {
        int tag = next_tags();
        if (rank == 1) {
            recv_word(&word, TAG_GO);
            for (int i = 0; i < BATCH; i++) send_word(tag + i, tag + i);
            send_word(0, TAG_MARK);
            continue;
        }
        send_word(0, TAG_GO);
        recv_word(&word, TAG_MARK);
        double start = now_ns();
        for (int i = BATCH - 1; i >= 0; i--) recv_word(&batch[i], tag + i);
        elapsed += now_ns() - start;
        check_batch(tag);
    }
    return elapsed;
}

static double unexpected(int size, long warmup, long iters) {
    int n = size - BATCH;
    long long word = 0;
    queue_memory();
    if (rank == 1) {
        for (int i = 0; i < n; i++) send_word(TAG_WAITING + i, TAG_WAITING + i);
        send_word(0, TAG_MARK);
    } else {
        recv_word(&word, TAG_MARK);
    }
    unexpected_loop(warmup);
    double elapsed = unexpected_loop(iters);
    for (int i = 0; rank == 0 && i < n; i++) {
        recv_word(&entries[i], TAG_WAITING + i);
        check(entries[i], TAG_WAITING + i);
    }
    return elapsed;
}

/* The memory of windows, which is there from the first operation on. */
static char *source, *memory;
static MPI_Win win;

static char *touched(size_t bytes) {
    void *p;
    if (posix_memalign(&p, PAGE, bytes) != 0) die("no memory");
    return memset(p, 'a', bytes);
}

static void window_memory(void) {
    if (source != NULL) return;
    source = touched(SPAN);
    MPI_Win_allocate(SPAN, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, SPAN);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* What each adds is one, so the values that are read follow each other. */
static void fetch_adds(long iters) {
    int64_t one = 1, old = 0, first = 0;
    for (long i = 0; i < iters; i++) {
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 1, 0, MPI_SUM, win);
        MPI_Win_flush(1, win);
        if (i == 0) first = old;
    }
    if (iters > 0 && old - first != iters - 1) die("a fetch-and-add is lost");
}

static void operations(const char *test, int size, int window, long iters) {
    if (strcmp(test, "fop") == 0) {
        fetch_adds(iters);
    } else if (strcmp(test, "get") == 0) {
        for (long i = 0; i < iters; i++) {
            MPI_Get(rbuf, size, MPI_CHAR, 1, 0, size, MPI_CHAR, win);
            MPI_Win_flush(1, win);
        }
    } else {
        int places = size > 0 ? SPAN / size : 1;
        for (long i = 0; i < iters; i++) {
            for (int k = 0; k < window; k++) {
                MPI_Aint at = (MPI_Aint)(k % places) * size;
                MPI_Put(source + at, size, MPI_CHAR, 1, at, size, MPI_CHAR, win);
            }
            MPI_Win_flush(1, win);
        }
    }
}

static int is_lock(const char *test) { return strcmp(test, "lock") == 0 || strcmp(test, "lockx") == 0; }

static double locks(int kind, long iters) {
    double start = now_ns();
    for (long i = 0; i < iters; i++) {
        MPI_Win_lock(kind, 1, 0, win);
        MPI_Win_unlock(1, win);
    }
    return now_ns() - start;
}

/* Rank 1 waits in a barrier meanwhile. */
static double one_sided(const char *test, int size, int window, long warmup, long iters) {
    double elapsed = 0;
    window_memory();
    if (rank == 0 && is_lock(test)) {
        int kind = strcmp(test, "lock") == 0 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE;
        locks(kind, warmup);
        elapsed = locks(kind, iters);
    } else if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        operations(test, size, window, warmup);
        double start = now_ns();
        operations(test, size, window, iters);
        elapsed = now_ns() - start;
        MPI_Win_unlock(1, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return elapsed;
}

static int is_one_sided(const char *test) {
    return strcmp(test, "put") == 0 || strcmp(test, "get") == 0 || strcmp(test, "fop") == 0 || strcmp(test, "putbw") == 0 ||
           is_lock(test);
}

static void transfer(const char *test, int size, int window, long iters) {
    if (test[0] == 'l')
        ping_pong(size, iters);
    else
        windows(size, window, iters);
}

/* One job: the nanoseconds that its iterations have taken. */
static double run(const char *test, int size, int window, long warmup, long iters) {
    if (is_one_sided(test)) return one_sided(test, size, window, warmup, iters);
    if (test[0] == 'p') return posted(size, warmup, iters);
    if (test[0] == 'u') return unexpected(size, warmup, iters);
    transfer(test, size, window, warmup);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now_ns();
    transfer(test, size, window, iters);
    return now_ns() - start;
}

static int is_job(const char *test, int size, int window, long warmup, long iters) {
    if (window < 1 || window > MAX_WINDOW || warmup < 0 || iters < 1) return 0;
    if (strcmp(test, "fop") == 0) return size == 8;
    if (is_lock(test)) return size == 0;
    if (strcmp(test, "lat") == 0 || strcmp(test, "bw") == 0 || is_one_sided(test)) return size >= 0 && size <= MAX_BYTES;
    if (strcmp(test, "posted") == 0 || strcmp(test, "unexpected") == 0) return size >= BATCH && size <= MAX_ENTRIES;
    return 0;
}

/* A rank that leaves MPI for read(2) makes no progress there. What it has sent
 * may still be queued on its side: MPI_Send of a short message returns before
 * it is out (Open MPI 4.1.4 kept the last answer of a window so, and the other
 * rank waited for it). So the ranks meet once more, and then give MPI the chance
 * to send what the meeting has left. */
static void settle(void) {
    int flag;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 1000; i++)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static FILE *open_in(const char *dir, const char *name, int number, const char *mode) {
    char path[4096];
    if (number >= 0)
        snprintf(path, sizeof path, "%s/%s.%d", dir, name, number);
    else
        snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, mode);
    if (f == NULL) die("cannot open a FIFO");
    return f;
}

int main(int argc, char **argv) {
    if (argc != 4) die("usage: peer DIR CPU0 CPU1");
    pin(argv);
    MPI_Init(&argc, &argv);
    int size, length;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) die("two ranks are needed");
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\n")] = 0;
    sbuf = touched(MAX_BYTES);
    rbuf = touched(MAX_BYTES);

    FILE *cmd = open_in(argv[1], "cmd", rank, "r");
    FILE *reply = rank == 0 ? open_in(argv[1], "reply", -1, "w") : NULL;
    if (reply) fprintf(reply, "ready %s\n", version), fflush(reply);

    char line[256], test[16];
    while (fgets(line, sizeof line, cmd)) {
        int bytes, window;
        long warmup, iters;
        if (sscanf(line, "%15s %d %d %ld %ld", test, &bytes, &window, &warmup, &iters) != 5 ||
            !is_job(test, bytes, window, warmup, iters)) {
            if (reply) fprintf(reply, "err not a job: %s", line), fflush(reply);
            continue;
        }
        double elapsed = run(test, bytes, window, warmup, iters);
        settle();
        if (reply) fprintf(reply, "ok %.0f\n", elapsed), fflush(reply);
    }
    if (source != NULL) MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
