/* An MPI program that checks what its launcher tells it: WORLD is the size that
 * it expects, and each rank passes its number around the ring. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, size, got = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 2 || size != atoi(argv[1])) {
        fprintf(stderr, "rank %d: the world has %d ranks\n", rank, size);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    int prev = (rank + size - 1) % size;
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 7, &got, 1, MPI_INT, prev, 7,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (got != prev) {
        fprintf(stderr, "rank %d: got %d from %d\n", rank, got, prev);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    printf("rank %d of %d\n", rank, size);
    MPI_Finalize();
    return 0;
}
