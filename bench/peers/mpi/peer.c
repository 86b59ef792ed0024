/* A ping-pong and a window benchmark on MPI, on command.
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
 *
 * The loops are those of bench/osu, one buffer per side, page aligned.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_BYTES = 8 << 20, MAX_WINDOW = 1024, PAGE = 4096 };

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

static void run(const char *test, int size, int window, long iters) {
    if (test[0] == 'l')
        ping_pong(size, iters);
    else
        windows(size, window, iters);
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

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
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

static char *touched(void) {
    void *p;
    if (posix_memalign(&p, PAGE, MAX_BYTES) != 0) die("no memory");
    return memset(p, 'a', MAX_BYTES);
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
    sbuf = touched();
    rbuf = touched();

    FILE *cmd = open_in(argv[1], "cmd", rank, "r");
    FILE *reply = rank == 0 ? open_in(argv[1], "reply", -1, "w") : NULL;
    if (reply) fprintf(reply, "ready %s\n", version), fflush(reply);

    char line[256], test[16];
    while (fgets(line, sizeof line, cmd)) {
        int bytes, window;
        long warmup, iters;
        if (sscanf(line, "%15s %d %d %ld %ld", test, &bytes, &window, &warmup, &iters) != 5 ||
            bytes < 0 || bytes > MAX_BYTES || window < 1 || window > MAX_WINDOW || warmup < 0 || iters < 1 ||
            (strcmp(test, "lat") != 0 && strcmp(test, "bw") != 0)) {
            if (reply) fprintf(reply, "err not a job: %s", line), fflush(reply);
            continue;
        }
        run(test, bytes, window, warmup);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now_ns();
        run(test, bytes, window, iters);
        double elapsed = now_ns() - start;
        settle();
        if (reply) fprintf(reply, "ok %.0f\n", elapsed), fflush(reply);
    }
    MPI_Finalize();
    return 0;
}
