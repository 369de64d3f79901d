/* The active-message benchmark with MPI: the same updates and gathers in bulk, ROUND per rank at a time, sorted by
   destination and exchanged by MPI_Alltoall of the counts and MPI_Alltoallv. It draws the stream of stream.rs and
   prints the lines of rank.rs; keep them in step. Arguments: cases such as update:4194304:4194304:9 (task.rs). */

#define _DEFAULT_SOURCE
#include "peer.h"
#include <sys/mman.h>

enum { PING = 1, ROUND = 65536 };

typedef struct {
    uint32_t at, by;
} Update;

struct Case {
    char what[16];
    size_t words, count, batches;
    int bits;                  /* of an index in a table */
    uint64_t *table, *answers; /* on base pages */
    uint64_t sent;             /* checksum of all updates so far */
    uint64_t first;            /* that of the first batch */
    size_t turn;
};

/* Buffers of a round: ROUND updates per rank, with room for all of them to go to one. */
static void *out, *in;
static uint32_t *positions;
static int *counts, *places, *in_counts, *in_places;

static int is(const Case *c, const char *what)
{
    return strcmp(c->what, what) == 0;
}

static void *plain_pages(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("no memory for a table");
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    memset(memory, 0, bytes);
    return memory;
}

/* The stream of one rank in one batch. */
typedef struct {
    uint64_t state, all;
    int bits;
} Stream;

static Stream stream_of(const Case *c, size_t turn)
{
    uint64_t number = (uint64_t)turn * (uint64_t)size + (uint64_t)rank + 1;
    Stream s = {number * 0x9e3779b97f4a7c15u, (uint64_t)size << c->bits, c->bits};
    return s;
}

/* An index in the table of all ranks; the state also determines the addend. Xorshift.   [Marsaglia 2003] */
static inline uint64_t draw(Stream *s)
{
    uint64_t x = s->state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    s->state = x;
    return ((x >> 32) * s->all) >> 32;
}

static inline uint32_t by_how_much(const Stream *s)
{
    return (uint32_t)(s->state & 0xff);
}

static uint64_t weight(uint64_t place)
{
    return 2 * place + 1;
}

/* Exchanges the counts, computes the receive displacements, and returns the total received. */
static size_t announce(void)
{
    int place = 0;
    MPI_Alltoall(counts, 1, MPI_INT, in_counts, 1, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++) {
        in_places[from] = place;
        place += in_counts[from];
    }
    return (size_t)place;
}

static void update(Case *c)
{
    Stream s = stream_of(c, c->turn);
    uint64_t mask = c->words - 1, *table = c->table;
    Update *sorted = out, *came = in;
    for (size_t done = 0; done < c->count; done += ROUND) {
        size_t many = c->count - done < ROUND ? c->count - done : ROUND;
        for (int to = 0; to < size; to++) counts[to] = 0;
        for (size_t i = 0; i < many; i++) {
            uint64_t place = draw(&s);
            size_t to = (size_t)(place >> c->bits);
            Update u = {(uint32_t)(place & mask), by_how_much(&s)};
            sorted[to * ROUND + (size_t)counts[to]++] = u;
        }
        size_t comes = announce();
        MPI_Alltoallv(sorted, counts, places, MPI_UINT64_T, came, in_counts, in_places, MPI_UINT64_T, MPI_COMM_WORLD);
        for (size_t i = 0; i < comes; i++) table[came[i].at] += came[i].by;
    }
}

static void gather(Case *c)
{
    Stream s = stream_of(c, c->turn);
    uint64_t mask = c->words - 1, *table = c->table, *answers = c->answers;
    uint32_t *sorted = out, *came = in;
    static uint64_t *told, *heard;
    if (!told) told = memory_of((size_t)size * ROUND, 8), heard = memory_of((size_t)size * ROUND, 8);
    for (size_t done = 0; done < c->count; done += ROUND) {
        size_t many = c->count - done < ROUND ? c->count - done : ROUND;
        for (int to = 0; to < size; to++) counts[to] = 0;
        for (size_t i = 0; i < many; i++) {
            uint64_t place = draw(&s);
            size_t to = (size_t)(place >> c->bits), at = to * ROUND + (size_t)counts[to]++;
            sorted[at] = (uint32_t)(place & mask);
            positions[at] = (uint32_t)(done + i);
        }
        size_t comes = announce();
        MPI_Alltoallv(sorted, counts, places, MPI_UINT32_T, came, in_counts, in_places, MPI_UINT32_T, MPI_COMM_WORLD);
        for (size_t i = 0; i < comes; i++) told[i] = table[came[i]];
        MPI_Alltoallv(told, in_counts, in_places, MPI_UINT64_T, heard, counts, places, MPI_UINT64_T, MPI_COMM_WORLD);
        for (int to = 0; to < size; to++) {
            size_t first = (size_t)to * ROUND;
            for (size_t i = first; i < first + (size_t)counts[to]; i++) answers[positions[i]] = heard[i];
        }
    }
}

/* Checks that the data received is the data sent. Untimed. */
static void check_update(Case *c)
{
    Stream s = stream_of(c, c->turn);
    uint64_t own = (uint64_t)rank << c->bits, sums[2] = {0, 0};
    for (size_t i = 0; i < c->count; i++) {
        uint64_t place = draw(&s);
        sums[0] += weight(place) * by_how_much(&s);
    }
    for (uint64_t at = 0; at < c->words; at++) sums[1] += weight(own + at) * c->table[at];
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    c->sent += sums[0];
    if (c->turn == 0) c->first = sums[0];
    if (c->sent != sums[1]) fail("other updates arrived than were sent");
}

static void check_gather(Case *c)
{
    Stream s = stream_of(c, c->turn);
    uint64_t sum = 0;
    for (size_t i = 0; i < c->count; i++) {
        uint64_t place = draw(&s);
        sum += weight(place);
        if (c->answers[i] != weight(place)) fail("another answer came than was asked for");
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (c->turn == 0) c->first = sum;
}

static void ping(const Case *c)
{
    for (size_t turn = 0; turn < c->count; turn += 2) {
        uint64_t token = turn;
        if (rank == 0) {
            MPI_Send(&token, 8, MPI_BYTE, 1, PING, MPI_COMM_WORLD);
            MPI_Recv(&token, 8, MPI_BYTE, 1, PING, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (token != turn + 1) fail("another message came back than was sent");
        } else if (rank == 1) {
            MPI_Recv(&token, 8, MPI_BYTE, 0, PING, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            token++;
            MPI_Send(&token, 8, MPI_BYTE, 0, PING, MPI_COMM_WORLD);
        }
    }
}

static void epoch(const Case *c)
{
    for (size_t turn = 0; turn < c->count; turn++) {
        uint64_t sum = 1;
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (sum != (uint64_t)size) fail("a wrong sum");
    }
}

static double batch(const Case *constant)
{
    Case *c = (Case *)constant;
    int is_update = is(c, "update"), is_gather = is(c, "gather");
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = micros();
    if (is_update) update(c);
    else if (is_gather) gather(c);
    else if (is(c, "ping")) ping(c);
    else epoch(c);
    double time = slowest(micros() - begun);
    if (is_update) check_update(c);
    if (is_gather) check_gather(c);
    c->turn++;
    return time / (double)c->count / (is_update || is_gather ? size : 1);
}

static void prepare(Case *c)
{
    if (is(c, "ping") || is(c, "epoch")) return;
    c->table = plain_pages(c->words * 8);
    if (!is(c, "gather")) return;
    c->answers = plain_pages(c->count * 8);
    for (uint64_t at = 0; at < c->words; at++) c->table[at] = weight(((uint64_t)rank << c->bits) + at);
}

static void release(Case *c)
{
    if (c->table) munmap(c->table, c->words * 8);
    if (c->answers) munmap(c->answers, c->count * 8);
}

static int read_case(const char *text, Case *c)
{
    int read = sscanf(text, "%15[a-z]:%zu:%zu:%zu", c->what, &c->words, &c->count, &c->batches);
    if (read != 4 || c->words < 1 || c->count < 1) return 0;
    while (((size_t)1 << c->bits) < c->words) c->bits++;
    if ((size_t)1 << c->bits != c->words) return 0;
    return is(c, "update") || is(c, "gather") || is(c, "ping") || is(c, "epoch");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    size_t ranks = (size_t)size;
    out = memory_of(ranks * ROUND, 8);
    in = memory_of(ranks * ROUND, 8);
    positions = memory_of(ranks * ROUND, sizeof(uint32_t));
    counts = memory_of(ranks, sizeof(int));
    places = memory_of(ranks, sizeof(int));
    in_counts = memory_of(ranks, sizeof(int));
    in_places = memory_of(ranks, sizeof(int));
    for (int to = 0; to < size; to++) places[to] = to * ROUND;
    for (int i = 1; i < argc; i++) {
        Case c;
        memset(&c, 0, sizeof c);
        if (!read_case(argv[i], &c)) fail("a case that cannot be read");
        prepare(&c);
        measure(&c, c.batches, argv[i]);
        if (rank == 0) printf("sent %s %llu\n", argv[i], (unsigned long long)c.first);
        release(&c);
    }
    return end();
}
