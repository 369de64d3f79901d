/* Common parts of the MPI benchmark programs. It does the same as batches.rs and prints the lines that output.rs
   parses; keep them in step. A program defines struct Case and batch. */

#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GO_ON = 3, ENOUGH = 3 };
static const double LONG = 300e3;

static int rank, size;

typedef struct Case Case;

/* Microseconds per operation, on rank 0. */
static double batch(const Case *c);

static void begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double micros(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

static void tell_others(uint64_t go_on)
{
    for (int other = 1; other < size; other++)
        MPI_Send(&go_on, 8, MPI_BYTE, other, GO_ON, MPI_COMM_WORLD);
}

static void measure(const Case *c, size_t batches, const char *name)
{
    if (rank != 0) {
        for (;;) {
            uint64_t go_on;
            MPI_Recv(&go_on, 8, MPI_BYTE, 0, GO_ON, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (!go_on) return;
            batch(c);
        }
    }
    double begun = micros();
    printf("case %s", name);
    for (size_t i = 0; i <= batches; i++) {
        if (i > ENOUGH && micros() - begun > LONG) break;
        tell_others(1);
        double time = batch(c);
        if (i > 0) printf(" %.5f", time);
    }
    tell_others(0);
    printf("\n");
}
