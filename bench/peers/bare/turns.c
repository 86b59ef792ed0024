/* What operations of many processes on few cores take without a library: processes of bare C that share lines of cache and let each
 * other run by sched_yield. Nothing is looked at but what has to be: no failures, no messages, no other communicators.
 *
 * usage: turns RANKS FILE MILLISECONDS OPERATION:0...
 *
 * The operations are those of ulfm.c in the directory beside, timed alike. A barrier has each rank write its line and wait until all lines are
 * written; in an agree they have a word each has to read. A revoke is a word that one writes and all others, which have come to a barrier, read. A
 * shrink would be an agree.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define MOST 50 /* as in ulfm.c */
#define RANKS 64

struct line {
    _Atomic uint64_t step;
    _Atomic uint64_t word[2]; /* of steps in turns */
    double said;              /* published by step */
    char rest[32];
};

static struct shared {
    struct line lines[RANKS];
    _Atomic uint64_t revoked;
} *shared;

static int rank, ranks;
static uint64_t step;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * t.tv_sec + t.tv_nsec;
}

static uint64_t agree(uint64_t word) {
    struct line *mine = &shared->lines[rank];
    step++;
    mine->word[step % 2] = word;
    atomic_store(&mine->step, step);
    for (int i = 0; i < ranks; i++) {
        while (atomic_load(&shared->lines[i].step) < step)
            sched_yield();
        word &= shared->lines[i].word[step % 2];
    }
    return word;
}

static void barrier(void) { agree(0); }

/* gather gives what all say. */
static void gather(double mine, double *all) {
    barrier(); /* all have read what was said before */
    shared->lines[rank].said = mine;
    barrier();
    for (int i = 0; i < ranks; i++)
        all[i] = shared->lines[i].said;
}

static double revocation(int revoker) {
    static uint64_t number;
    number++;
    barrier();
    if (rank == revoker)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    double at = now();
    if (rank == revoker) {
        atomic_store(&shared->revoked, number);
    } else {
        while (atomic_load(&shared->revoked) < number)
            sched_yield();
        at = now();
    }
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    double all[RANKS], last = 0;
    gather(at, all);
    for (int i = 0; i < ranks; i++)
        if (all[i] - all[revoker] > last)
            last = all[i] - all[revoker];
    return last;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double spend(const char *op, int calls) {
    double took[MOST], all[RANKS], sum = 0;
    if (strcmp(op, "revoke")) {
        barrier();
        double begin = now();
        for (int i = 0; i < calls; i++)
            if (agree(1) != 1)
                exit(3);
        gather((now() - begin) / calls, all);
        for (int i = 0; i < ranks; i++)
            sum += all[i];
        return sum / ranks;
    }
    for (int i = 0; i < calls; i++)
        took[i] = revocation(i % ranks);
    qsort(took, calls, sizeof *took, ascending);
    return took[calls / 2];
}

int main(int argc, char **argv) {
    int file = -1;
    if (argc < 5 || (ranks = atoi(argv[1])) < 1 || ranks > RANKS || (file = open(argv[2], O_WRONLY | O_APPEND)) < 0) {
        perror("turns: want RANKS, at most 64, a FILE that can be written, MILLISECONDS and OPERATION:0...");
        return 1;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("turns: mmap");
        return 1;
    }
    pid_t first = getpid();
    for (rank = ranks - 1; rank > 0; rank--) {
        pid_t child = fork();
        if (child < 0) {
            perror("turns: fork");
            return 1;
        }
        if (child == 0) { /* its rank is what the count has come to */
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != first)
                return 1;
            break;
        }
    }
    for (int k = 4; k < argc; k++) {
        char op[32];
        if (sscanf(argv[k], "%31[^:]:0", op) != 1)
            return 2;
        int most = strcmp(op, "barrier") && strcmp(op, "agree") ? MOST : INT_MAX, calls = 20;
        spend(op, calls);
        for (double share = 0, all[RANKS]; share <= 1. / 8 && calls < most;) {
            double begin = now();
            spend(op, calls);
            gather((now() - begin) / (1e6 * atof(argv[3])), all);
            share = all[0];
            calls = share <= 1. / 8 ? 4 * calls : (int)(calls / share) + 1;
        }
        double mean = spend(op, calls < most ? calls : most);
        if (rank == 0)
            dprintf(file, "%s 0 %.1f\n", op, mean);
    }
    while (rank == 0 && wait(NULL) > 0)
        ;
    return 0;
}
