/* Common parts of the MPI benchmark programs. It does the same as rank.rs and prints the lines that output.rs parses;
   keep them in step. A program defines struct Case and batch. */

#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GO_ON = 3, TIME = 4, ENOUGH = 3 };
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

static int end(void)
{
    fflush(stdout);
    MPI_Finalize();
    return 0;
}

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Memory of zeros; warm-up batches touch it first. */
static inline void *memory_of(size_t count, size_t element)
{
    void *memory = calloc(count + 1, element);
    if (!memory) fail("no memory for messages");
    return memory;
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

/* The time of the slowest rank, on rank 0. */
static double slowest(double mine)
{
    if (rank != 0) {
        MPI_Send(&mine, 1, MPI_DOUBLE, 0, TIME, MPI_COMM_WORLD);
        return mine;
    }
    for (int other = 1; other < size; other++) {
        double time;
        MPI_Recv(&time, 1, MPI_DOUBLE, other, TIME, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (time > mine) mine = time;
    }
    return mine;
}
