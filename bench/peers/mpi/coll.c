/* Times of collectives, as their callers see them.
 *
 * usage: coll FILE MILLISECONDS OPERATION:BYTES[:rewritten]...
 *
 * Each OPERATION is called for about so many milliseconds, a barrier that does
 * not count before each call. BYTES are what OSU's programs of these names take
 * for a size: of a block, or of what a rank gives to a sum of MPI_INT. All
 * buffers are written before; rewritten: what a rank gives also between calls.
 * Rank 0 appends a line "OPERATION BYTES NANOSECONDS LONGEST" to FILE: the mean
 * over calls and ranks, and the longest call of a rank.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, ranks, bytes;
static char *in, *out;
static int *counts, *places, *parts; /* of blocks in bytes, and of sums in numbers */
static MPI_Comm ring;                /* for neighbours: the ranks below and above */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * t.tv_sec + t.tv_nsec;
}

#define ALL MPI_COMM_WORLD
#define NUMBERS (bytes / (int)sizeof(int))
static void barrier(void) { MPI_Barrier(ALL); }
static void bcast(void) { MPI_Bcast(in, bytes, MPI_CHAR, 0, ALL); }
static void reduce(void) { MPI_Reduce(in, out, NUMBERS, MPI_INT, MPI_SUM, 0, ALL); }
static void allreduce(void) { MPI_Allreduce(in, out, NUMBERS, MPI_INT, MPI_SUM, ALL); }
static void scan(void) { MPI_Scan(in, out, NUMBERS, MPI_INT, MPI_SUM, ALL); }
static void exscan(void) { MPI_Exscan(in, out, NUMBERS, MPI_INT, MPI_SUM, ALL); }
static void reduce_scatter(void) { MPI_Reduce_scatter(in, out, parts, MPI_INT, MPI_SUM, ALL); }
static void reduce_scatter_block(void) { MPI_Reduce_scatter_block(in, out, NUMBERS, MPI_INT, MPI_SUM, ALL); }
static void gather(void) { MPI_Gather(in, bytes, MPI_CHAR, out, bytes, MPI_CHAR, 0, ALL); }
static void gatherv(void) { MPI_Gatherv(in, bytes, MPI_CHAR, out, counts, places, MPI_CHAR, 0, ALL); }
static void scatter(void) { MPI_Scatter(in, bytes, MPI_CHAR, out, bytes, MPI_CHAR, 0, ALL); }
static void scatterv(void) { MPI_Scatterv(in, counts, places, MPI_CHAR, out, bytes, MPI_CHAR, 0, ALL); }
static void allgather(void) { MPI_Allgather(in, bytes, MPI_CHAR, out, bytes, MPI_CHAR, ALL); }
static void allgatherv(void) { MPI_Allgatherv(in, bytes, MPI_CHAR, out, counts, places, MPI_CHAR, ALL); }
static void alltoall(void) { MPI_Alltoall(in, bytes, MPI_CHAR, out, bytes, MPI_CHAR, ALL); }
static void alltoallv(void) { MPI_Alltoallv(in, counts, places, MPI_CHAR, out, counts, places, MPI_CHAR, ALL); }
static void neighbor_allgather(void) { MPI_Neighbor_allgather(in, bytes, MPI_CHAR, out, bytes, MPI_CHAR, ring); }
static void neighbor_allgatherv(void) {
    MPI_Neighbor_allgatherv(in, bytes, MPI_CHAR, out, counts, places, MPI_CHAR, ring);
}
static void neighbor_alltoall(void) { MPI_Neighbor_alltoall(in, bytes, MPI_CHAR, out, bytes, MPI_CHAR, ring); }
static void neighbor_alltoallv(void) {
    MPI_Neighbor_alltoallv(in, counts, places, MPI_CHAR, out, counts, places, MPI_CHAR, ring);
}

#define ONE(f) {#f, f, 0}
#define EACH(f) {#f, f, 1}
static const struct {
    const char *name;
    void (*call)(void);
    int each; /* a rank gives a block for each of the others, or of the neighbours */
} operations[] = {ONE(barrier),
                  ONE(bcast),
                  ONE(reduce),
                  ONE(allreduce),
                  ONE(scan),
                  ONE(exscan),
                  ONE(reduce_scatter),
                  EACH(reduce_scatter_block),
                  ONE(gather),
                  ONE(gatherv),
                  EACH(scatter),
                  EACH(scatterv),
                  ONE(allgather),
                  ONE(allgatherv),
                  EACH(alltoall),
                  EACH(alltoallv),
                  ONE(neighbor_allgather),
                  ONE(neighbor_allgatherv),
                  EACH(neighbor_alltoall),
                  EACH(neighbor_alltoallv),
                  {0, 0, 0}};

/* touched is memory that begins on a page, as that of peer.c and of Banyan does, all of it written. */
static char *touched(size_t length, int value) {
    void *p = NULL;
    if (posix_memalign(&p, 4096, length + 8) != 0) /* no buffer is NULL */
        MPI_Abort(ALL, 3);
    return memset(p, value, length);
}

/* spend calls an operation a number of times, and returns the nanoseconds that this rank spent in it. */
static double spend(void (*call)(void), size_t rewritten, int calls, double *longest) {
    double sum = 0;
    for (int i = 0; i < calls; i++) {
        if (rewritten)
            memset(in, i, rewritten);
        MPI_Barrier(ALL);
        double begin = now();
        call();
        double took = now() - begin;
        sum += took;
        if (took > *longest)
            *longest = took;
    }
    return sum;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(ALL, &rank);
    MPI_Comm_size(ALL, &ranks);
    MPI_Cart_create(ALL, 1, &ranks, &(int){1}, 0, &ring);
    int file = -1;
    if (rank == 0 && (argc < 4 || (file = open(argv[1], O_WRONLY | O_APPEND)) < 0)) {
        perror("coll: cannot write to the FILE of the arguments");
        MPI_Abort(ALL, 1);
    }
    int blocks = ranks > 2 ? ranks : 2;
    counts = calloc(3 * blocks, sizeof(int)), places = counts + blocks, parts = places + blocks;
    for (int k = 3; k < argc; k++) {
        char op[32], mode[16] = "";
        if (sscanf(argv[k], "%31[^:]:%d:%15s", op, &bytes, mode) < 2)
            MPI_Abort(ALL, 2);
        int at = 0;
        while (operations[at].name && strcmp(op, operations[at].name))
            at++;
        if (!operations[at].name)
            MPI_Abort(ALL, 2);
        size_t length = (size_t)bytes * blocks;
        in = touched(length, 1), out = touched(length, 2);
        for (int i = 0; i < blocks; i++) {
            counts[i] = bytes, places[i] = i * bytes;
            parts[i] = i < ranks ? (NUMBERS + ranks - 1 - i) / ranks : 0;
        }
        size_t given = (size_t)bytes * (!operations[at].each ? 1 : strncmp(op, "neighbor", 8) ? ranks : 2);
        size_t rewritten = *mode ? given : 0;
        int calls = 20;
        double longest = 0;
        spend(operations[at].call, rewritten, calls, &longest); /* connections are made */
        for (double share = 0; share <= 1. / 8;) {
            double begin = now();
            spend(operations[at].call, rewritten, calls, &longest);
            share = (now() - begin) / (1e6 * atof(argv[2]));
            MPI_Bcast(&share, 1, MPI_DOUBLE, 0, ALL);
            calls = share <= 1. / 8 ? 4 * calls : (int)(calls / share) + 1;
        }
        longest = 0;
        double mine = spend(operations[at].call, rewritten, calls, &longest), sum = 0, most = 0;
        MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, ALL);
        MPI_Reduce(&longest, &most, 1, MPI_DOUBLE, MPI_MAX, 0, ALL);
        if (rank == 0)
            dprintf(file, "%s %d %.1f %.1f\n", op, bytes, sum / calls / ranks, most);
        free(in), free(out);
    }
    MPI_Finalize();
    return 0;
}
