/* The collective benchmark with MPI. It makes the same calls as rank.rs and prints the same lines; keep
   both in step. Arguments: cases such as apart:allgather:65536:10:9 (task.rs). */

#include "peer.h"

enum { WORD = sizeof(double) };

typedef enum { BCAST, ALLGATHER, ALLREDUCE, REDUCE_SCATTER, ALLTOALL, BARRIER, SCATTER, GATHER, OPERATIONS } Operation;
static const char *const NAMES[OPERATIONS] = {"bcast",    "allgather", "allreduce", "reduce_scatter",
                                              "alltoall", "barrier",   "scatter",   "gather"};

/* All lengths and offsets are in words. */
struct Case {
    const char *text;
    int apart;                    /* whether a barrier precedes each operation, which is timed alone */
    Operation operation;
    size_t words, count, batches;
    size_t data, into;            /* lengths of the input (of a broadcast: the only buffer) and of the result */
    int *counts;                  /* receive counts of MPI_Reduce_scatter */
    size_t *edges, edge_count;    /* first and last word of each input block */
    size_t blocks, block, origin; /* the result: number and length of its blocks, offset of the first in its input */
};

static double *data, *into;
static double turn_number;

static int read_case(const char *text, Case *c)
{
    char rule[16], name[16];
    size_t bytes;
    if (sscanf(text, "%15[a-z]:%15[a-z_]:%zu:%zu:%zu", rule, name, &bytes, &c->count, &c->batches) != 5) return 0;
    c->apart = strcmp(rule, "apart") == 0;
    if (!c->apart && strcmp(rule, "stream") != 0) return 0;
    c->operation = BCAST;
    while (c->operation < OPERATIONS && strcmp(name, NAMES[c->operation]) != 0) c->operation++;
    c->text = text;
    c->words = bytes / WORD;
    return c->operation < OPERATIONS && bytes % WORD == 0 && c->count > 0 && c->batches > 0;
}

static void shape(Case *c)
{
    size_t ranks = (size_t)size, me = (size_t)rank, words = c->words, first = 0, begin = 0;
    c->counts = malloc(ranks * sizeof(int));
    c->edges = malloc(2 * ranks * sizeof(size_t));
    if (!c->counts || !c->edges) fail("no memory for the shapes of cases");
    for (size_t r = 0; r < ranks; r++) {
        c->counts[r] = (int)(words / ranks + (r < words % ranks));
        if (r < me) first += (size_t)c->counts[r];
    }
    int is_blocks = c->operation == ALLGATHER || c->operation == ALLTOALL || c->operation == GATHER;
    int has_blocks = c->operation == ALLTOALL || c->operation == SCATTER, is_scatter = c->operation == REDUCE_SCATTER;
    c->data = c->operation == BARRIER ? 0 : has_blocks ? ranks * words : words;
    c->blocks = is_blocks ? ranks : c->operation == BARRIER ? 0 : 1;
    c->block = is_scatter ? (size_t)c->counts[me] : words;
    c->into = c->operation == BCAST ? 0 : c->blocks * c->block;
    c->origin = is_scatter ? first : has_blocks ? me * words : 0;

    size_t inputs = has_blocks || is_scatter ? ranks : 1;
    c->edge_count = 0;
    for (size_t i = 0; i < inputs; i++) {
        size_t count = is_scatter ? (size_t)c->counts[i] : has_blocks ? words : c->data;
        if (count > 0) {
            c->edges[c->edge_count++] = begin;
            c->edges[c->edge_count++] = begin + count - 1;
        }
        begin += count;
    }
}

static double inner(size_t of_rank, size_t index)
{
    return (double)(of_rank + index % 1000);
}

static void prepare(const Case *c)
{
    size_t of_rank = c->operation == BCAST ? 0 : (size_t)rank;
    for (size_t i = 0; i < c->data; i++) data[i] = inner(of_rank, i);
    for (size_t i = 0; i < c->into; i++) into[i] = -1;
}

static int root(void)
{
    return (int)((size_t)turn_number % (size_t)size);
}

static void operation(const Case *c)
{
    int words = (int)c->words;
    turn_number += 1;
    if (c->operation != BCAST || rank == root())
        for (size_t i = 0; i < c->edge_count; i++) data[c->edges[i]] = rank + turn_number;
    switch (c->operation) {
    case BCAST: MPI_Bcast(data, words, MPI_DOUBLE, root(), MPI_COMM_WORLD); break;
    case ALLGATHER: MPI_Allgather(data, words, MPI_DOUBLE, into, words, MPI_DOUBLE, MPI_COMM_WORLD); break;
    case ALLREDUCE: MPI_Allreduce(data, into, words, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); break;
    case REDUCE_SCATTER: MPI_Reduce_scatter(data, into, c->counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); break;
    case ALLTOALL: MPI_Alltoall(data, words, MPI_DOUBLE, into, words, MPI_DOUBLE, MPI_COMM_WORLD); break;
    case SCATTER: MPI_Scatter(data, words, MPI_DOUBLE, into, words, MPI_DOUBLE, root(), MPI_COMM_WORLD); break;
    case GATHER: MPI_Gather(data, words, MPI_DOUBLE, into, words, MPI_DOUBLE, root(), MPI_COMM_WORLD); break;
    default: MPI_Barrier(MPI_COMM_WORLD);
    }
}

static double word_of(const Case *c, size_t of_rank, size_t place)
{
    int is_edge = place == 0 || place == c->block - 1;
    return is_edge ? (double)of_rank + turn_number : inner(of_rank, c->origin + place);
}

static double expected(const Case *c, size_t block, size_t place)
{
    double sum = 0;
    int is_edge = place == 0 || place == c->block - 1;
    if (c->operation == SCATTER) return word_of(c, (size_t)root(), place);
    if (c->operation == BCAST) return word_of(c, is_edge ? (size_t)root() : 0, place);
    if (c->operation != ALLREDUCE && c->operation != REDUCE_SCATTER) return word_of(c, block, place);
    for (int r = 0; r < size; r++) sum += word_of(c, (size_t)r, place);
    return sum;
}

static void check(const Case *c)
{
    const double *result = c->operation == BCAST ? data : into;
    if (c->block == 0 || (c->operation == GATHER && rank != root())) return;
    for (size_t block = 0; block < c->blocks; block++) {
        size_t last = c->block - 1, places[3] = {0, last / 2, last};
        for (int i = 0; i < 3; i++) {
            double found = result[block * c->block + places[i]], right = expected(c, block, places[i]);
            if (found == right) continue;
            fprintf(stderr, "%s: rank %d has %g instead of %g at place %zu of block %zu\n", c->text, rank, found, right,
                    places[i], block);
            fail("a wrong result");
        }
    }
}

static double apart(const Case *c)
{
    double mine = 0;
    for (size_t turn = 0; turn <= c->count; turn++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begun = micros();
        operation(c);
        if (turn > 0) mine += micros() - begun;
    }
    return mine;
}

static double stream(const Case *c)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = micros();
    for (size_t turn = 0; turn <= c->count; turn++) {
        if (turn == 1) begun = micros();
        operation(c);
    }
    return micros() - begun;
}

static double batch(const Case *c)
{
    double mine = c->apart ? apart(c) : stream(c);
    check(c);
    return slowest(mine) / (double)c->count;
}

static double *ones(size_t words)
{
    double *memory = memory_of(words, WORD);
    for (size_t i = 0; i < words; i++) memory[i] = 1;
    return memory;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    Case *cases = calloc((size_t)argc, sizeof(Case));
    size_t most_data = 0, most_into = 0;
    for (int i = 1; i < argc; i++) {
        if (!read_case(argv[i], &cases[i])) fail("a case that cannot be read");
        shape(&cases[i]);
        if (cases[i].data > most_data) most_data = cases[i].data;
        if (cases[i].into > most_into) most_into = cases[i].into;
    }
    data = ones(most_data);
    into = ones(most_into);
    for (int i = 1; i < argc; i++) {
        prepare(&cases[i]);
        measure(&cases[i], cases[i].batches, argv[i]);
    }
    return end();
}
