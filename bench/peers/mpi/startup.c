/* The least that a parallel program does: starts, meets, ends.
 *
 * usage: startup FILE
 *
 * After the barrier each rank appends a line "passed NANOSECONDS" to FILE, by
 * CLOCK_MONOTONIC. The line is one write, and FILE is opened for appending, so
 * the lines of many ranks stay whole.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);

    char line[64];
    int length = snprintf(line, sizeof line, "passed %lld\n", 1000000000LL * t.tv_sec + t.tv_nsec);
    int fd = argc == 2 ? open(argv[1], O_WRONLY | O_APPEND) : -1;
    if (fd < 0 || write(fd, line, length) != length) {
        perror("startup: cannot write to the FILE of the arguments");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    close(fd);
    MPI_Finalize();
    return 0;
}
