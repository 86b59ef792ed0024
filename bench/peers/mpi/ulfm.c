/* Times of recovery: agreements, shrinks and revocations of ULFM in which nothing has failed.
 *
 * usage: ulfm FILE MILLISECONDS OPERATION:0...
 *
 * Each OPERATION is called for about so many milliseconds. Rank 0 appends a line
 * "OPERATION 0 NANOSECONDS" to FILE: of barrier, agree and shrink the mean over calls and ranks, of revoke the median,
 * over rounds, of the time from the call of MPIX_Comm_revoke to the return of the last of the others, which wait in a barrier.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#ifndef OMPI_HAVE_MPI_EXT_FTMPI
#error "this Open MPI has no fault tolerance (ULFM), which comes with version 5"
#endif
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST 50 /* communicators that a block of shrinks makes */

static int rank, ranks;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * t.tv_sec + t.tv_nsec;
}

static void must(int ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "ulfm: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* block calls an operation a number of times and returns this rank's nanoseconds of one. */
static double block(const char *op, int calls) {
    static MPI_Comm made[MOST];
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = now();
    for (int i = 0; i < calls; i++) {
        int flag = 1;
        if (!strcmp(op, "barrier"))
            MPI_Barrier(MPI_COMM_WORLD);
        else if (!strcmp(op, "agree"))
            must(MPIX_Comm_agree(MPI_COMM_WORLD, &flag) == MPI_SUCCESS, "agree failed");
        else
            must(MPIX_Comm_shrink(MPI_COMM_WORLD, &made[i]) == MPI_SUCCESS, "shrink failed");
    }
    double took = (now() - begin) / calls;
    for (int i = 0; i < calls && !strcmp(op, "shrink"); i++)
        MPI_Comm_free(&made[i]);
    return took;
}

/* revocation returns the nanoseconds from one rank's revocation to the last of the others. */
static double revocation(int revoker) {
    MPI_Comm c;
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    MPI_Barrier(c);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == revoker)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL); /* the others wait by then */
    int code = MPIX_ERR_REVOKED, class = 0;
    double at = now();
    if (rank == revoker) {
        must(MPIX_Comm_revoke(c) == MPI_SUCCESS, "revoke failed");
    } else {
        code = MPI_Barrier(c);
        at = now();
    }
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* a rank that has left yields its core to the others */
    MPI_Error_class(code, &class);
    must(class == MPIX_ERR_REVOKED, "the barrier did not end with MPIX_ERR_REVOKED");
    double all[ranks], last = 0;
    MPI_Allgather(&at, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        if (all[i] - all[revoker] > last)
            last = all[i] - all[revoker];
    MPI_Comm_free(&c);
    return last;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* spend returns what the line of an operation says, of so many calls. */
static double spend(const char *op, int calls) {
    if (strcmp(op, "revoke")) {
        double mine = block(op, calls), sum = 0;
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        return sum / ranks;
    }
    double took[calls];
    for (int i = 0; i < calls; i++)
        took[i] = revocation(i % ranks);
    qsort(took, calls, sizeof *took, ascending);
    return took[calls / 2];
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int file = -1;
    if (rank == 0)
        must(argc >= 4 && (file = open(argv[1], O_WRONLY | O_APPEND)) >= 0, "cannot write to the FILE of the arguments");
    for (int k = 3; k < argc; k++) {
        char op[32];
        must(sscanf(argv[k], "%31[^:]:0", op) == 1, "not an OPERATION:0");
        must(!strcmp(op, "barrier") || !strcmp(op, "agree") || !strcmp(op, "shrink") || !strcmp(op, "revoke"), "there is no such operation");
        int most = strcmp(op, "barrier") && strcmp(op, "agree") ? MOST : INT_MAX, calls = 20;
        spend(op, calls); /* connections are made */
        for (double share = 0; share <= 1. / 8 && calls < most;) {
            double begin = now();
            spend(op, calls);
            share = (now() - begin) / (1e6 * atof(argv[2]));
            MPI_Bcast(&share, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
            calls = share <= 1. / 8 ? 4 * calls : (int)(calls / share) + 1;
        }
        double mean = spend(op, calls < most ? calls : most);
        if (rank == 0)
            dprintf(file, "%s 0 %.1f\n", op, mean);
    }
    MPI_Finalize();
    return 0;
}
