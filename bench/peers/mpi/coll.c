/* Times of collectives, as their callers see them.
 *
 * usage: coll FILE MILLISECONDS OPERATION:BYTES...
 *
 * Each OPERATION (barrier, bcast, allreduce) is called for about so many
 * milliseconds, a barrier that does not count after each call. Rank 0 appends
 * a line "OPERATION BYTES NANOSECONDS" to FILE: the mean over calls and ranks.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * t.tv_sec + t.tv_nsec;
}

static void call(const char *op, char *in, int bytes) {
    if (!strcmp(op, "barrier"))
        MPI_Barrier(MPI_COMM_WORLD);
    else if (!strcmp(op, "bcast"))
        MPI_Bcast(in, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
    else if (!strcmp(op, "allreduce"))
        MPI_Allreduce(MPI_IN_PLACE, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* of zeros */
    else
        MPI_Abort(MPI_COMM_WORLD, 2);
}

/* spend calls an operation a number of times, and returns the nanoseconds that this rank spent in it. */
static double spend(const char *op, char *in, int bytes, int calls) {
    double sum = 0;
    for (int i = 0; i < calls; i++) {
        double begin = now();
        call(op, in, bytes);
        sum += now() - begin;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return sum;
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int file = -1;
    if (rank == 0 && (argc < 4 || (file = open(argv[1], O_WRONLY | O_APPEND)) < 0)) {
        perror("coll: cannot write to the FILE of the arguments");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int k = 3; k < argc; k++) {
        char op[32];
        int bytes;
        if (sscanf(argv[k], "%31[^:]:%d", op, &bytes) != 2)
            MPI_Abort(MPI_COMM_WORLD, 2);
        char *in = calloc(1, bytes + 8);
        int calls = 20;
        spend(op, in, bytes, calls); /* connections are made */
        for (double share = 0; share <= 1. / 8;) {
            double begin = now();
            spend(op, in, bytes, calls);
            share = (now() - begin) / (1e6 * atof(argv[2]));
            MPI_Bcast(&share, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
            calls = share <= 1. / 8 ? 4 * calls : (int)(calls / share) + 1;
        }
        double mine = spend(op, in, bytes, calls), sum = 0;
        MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0)
            dprintf(file, "%s %d %.1f\n", op, bytes, sum / calls / ranks);
        free(in);
    }
    MPI_Finalize();
    return 0;
}
