/* What many ranks cost each other: each sends to all others, as bench/many does.
 *
 * usage: many FILE REPEATS BYTES...
 *
 * The all-to-all of each size is done 2 + REPEATS times, a barrier before each;
 * the slowest rank counts. Rank 0 appends lines "NAME NUMBER" to FILE, in
 * seconds and bytes: first, second and the median of the others; processor time
 * of a directed pair in the first of all; shared memory of the node; resident
 * memory of rank 0.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static int rank, ranks;

static double processor(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + 1e-6 * (u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* kilobytes reads a line "NAME 123 kB" of a file of the kernel, in bytes. */
static double kilobytes(const char *file, const char *name) {
    char line[256];
    long found = 0;
    FILE *f = fopen(file, "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name)))
            found = atol(line + strlen(name));
    if (f)
        fclose(f);
    return 1024.0 * found;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void once(char *out, char *in, int size, MPI_Request *reqs) {
    int n = 0;
    for (int i = 1; i < ranks; i++) {
        int from = (rank - i + ranks) % ranks;
        MPI_Irecv(in + (size_t)from * size, size, MPI_BYTE, from, 0, MPI_COMM_WORLD, &reqs[n++]);
    }
    for (int i = 1; i < ranks; i++) {
        int to = (rank + i) % ranks;
        MPI_Isend(out + (size_t)to * size, size, MPI_BYTE, to, 0, MPI_COMM_WORLD, &reqs[n++]);
    }
    MPI_Waitall(n, reqs, MPI_STATUSES_IGNORE);
}

/* check compares each message with its sender, and spoils it for the next time. */
static void check(char *in, int size) {
    for (int from = 0; from < ranks; from++) {
        if (from != rank && in[(size_t)from * size] != (char)from)
            MPI_Abort(MPI_COMM_WORLD, 2);
        in[(size_t)from * size] = ~(char)from;
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int file = -1;
    if (rank == 0 && (argc < 4 || (file = open(argv[1], O_WRONLY | O_APPEND)) < 0)) {
        perror("many: cannot write to the FILE of the arguments");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    int times = 2 + atoi(argv[2]);
    double before = kilobytes("/proc/self/status", "VmRSS:"), after = 0, used = 0, all = 0;
    double *took = calloc(times, sizeof *took), *longest = calloc(times, sizeof *longest);
    MPI_Request *reqs = malloc(2 * ranks * sizeof *reqs);
    for (int k = 3; k < argc; k++) {
        int size = atoi(argv[k]);
        char *out = malloc((size_t)ranks * size), *in = malloc((size_t)ranks * size);
        memset(out, rank, (size_t)ranks * size);
        memset(in, 1, (size_t)ranks * size);
        for (int i = 0; i < times; i++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double cpu = processor(), start = MPI_Wtime();
            once(out, in, size, reqs);
            took[i] = MPI_Wtime() - start;
            if (k == 3 && i == 0) {
                used = processor() - cpu;
                after = kilobytes("/proc/self/status", "VmRSS:");
            }
            check(in, size);
        }
        MPI_Reduce(took, longest, times, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            qsort(longest + 2, times - 2, sizeof *longest, by_value);
            double steady = (longest[2 + (times - 3) / 2] + longest[2 + (times - 2) / 2]) / 2;
            dprintf(file, "first:%d %.9f\nsecond:%d %.9f\nsteady:%d %.9f\n", size, longest[0], size, longest[1], size,
                    steady);
        }
        free(out);
        free(in);
    }
    MPI_Reduce(&used, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        dprintf(file, "processor %.12f\nshared %.0f\nbefore %.0f\nafter %.0f\npeak %.0f\n",
                all / ranks / (ranks - 1), kilobytes("/proc/meminfo", "Shmem:"), before, after,
                kilobytes("/proc/self/status", "VmHWM:"));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
