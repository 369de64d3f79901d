/* RandomAccess with MPI, as one writes it by hand: in rounds of a look-ahead, data is sorted by rank, the counts are
   exchanged by MPI_Alltoall and the data by MPI_Alltoallv. `alone` updates each rank's own table by a plain loop, without
   any exchange. It draws the stream of stream.rs and prints the lines of rank.rs; keep them in step. Arguments: cases such
   as update:8388608:1024:4194304:9, which are words of all ranks, look-ahead, updates of a rank and batches. */

#define _DEFAULT_SOURCE
#include "peer.h"
#include <sys/mman.h>

struct Case {
    char what[16];
    size_t words, look_ahead, count, batches;
    uint64_t *table, first; /* of this rank; on base pages if it is alone */
    int shift;              /* to the owner of a datum */
    size_t turn;
};

static uint64_t *out, *in;
static int *counts, *places, *in_counts, *in_places;

static uint64_t next(uint64_t value)
{
    return value << 1 ^ ((int64_t)value < 0 ? 7 : 0);
}

/* The value at a position of the stream, which begins with 1. */
static uint64_t value_at(uint64_t position)
{
    uint64_t squares[64], power = 1, value = 1;
    int bit = 63;
    for (int i = 0; i < 64; i++, power = next(next(power))) squares[i] = power;
    while (bit >= 0 && !(position >> bit & 1)) bit--;
    for (; bit >= 0; bit--) {
        uint64_t square = 0;
        for (int i = 0; i < 64; i++)
            if (value >> i & 1) square ^= squares[i];
        value = position >> bit & 1 ? next(square) : square;
    }
    return value;
}

static void update(Case *c)
{
    uint64_t value = value_at((uint64_t)rank * c->count), owners = (uint64_t)size - 1;
    uint64_t mask = c->words / (size_t)size - 1, *table = c->table;
    for (size_t done = 0; done < c->count; done += c->look_ahead) {
        size_t many = c->count - done < c->look_ahead ? c->count - done : c->look_ahead;
        int place = 0;
        for (int to = 0; to < size; to++) counts[to] = 0;
        for (size_t i = 0; i < many; i++) {
            value = next(value);
            size_t to = (size_t)(value >> c->shift & owners);
            out[to * c->look_ahead + (size_t)counts[to]++] = value;
        }
        MPI_Alltoall(counts, 1, MPI_INT, in_counts, 1, MPI_INT, MPI_COMM_WORLD);
        for (int from = 0; from < size; from++) {
            in_places[from] = place;
            place += in_counts[from];
        }
        MPI_Alltoallv(out, counts, places, MPI_UINT64_T, in, in_counts, in_places, MPI_UINT64_T, MPI_COMM_WORLD);
        for (int i = 0; i < place; i++) table[in[i] & mask] ^= in[i];
    }
}

static void update_alone(Case *c)
{
    uint64_t value = value_at((uint64_t)rank * c->count);
    uint64_t mask = c->words / (size_t)size - 1, *table = c->table;
    for (size_t i = 0; i < c->count; i++) {
        value = next(value);
        table[value & mask] ^= value;
    }
}

static double batch(const Case *constant)
{
    Case *c = (Case *)constant;
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = micros();
    if (strcmp(c->what, "update") == 0) update(c);
    else update_alone(c);
    double time = slowest(micros() - begun);
    /* The same updates twice restore the table. Untimed. */
    if (c->turn++ % 2 == 1)
        for (size_t i = 0; i < c->words / (size_t)size; i++)
            if (c->table[i] != c->first + i) fail("a wrong word");
    return time / (double)c->count / size;
}

static void prepare(Case *c)
{
    size_t words = c->words / (size_t)size;
    c->table = mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (c->table == MAP_FAILED) fail("no memory for a table");
    if (strcmp(c->what, "alone") == 0) madvise(c->table, words * 8, MADV_NOHUGEPAGE);
    c->first = (uint64_t)rank * words;
    for (size_t i = 0; i < words; i++) c->table[i] = c->first + i;
    while ((size_t)1 << c->shift < words) c->shift++;
    out = memory_of((size_t)size * c->look_ahead, 8);
    in = memory_of((size_t)size * c->look_ahead, 8);
    for (int to = 0; to < size; to++) places[to] = to * (int)c->look_ahead;
}

static int is_power_of_two(size_t number)
{
    return number > 0 && (number & (number - 1)) == 0;
}

static int read_case(const char *text, Case *c)
{
    int read = sscanf(text, "%15[a-z]:%zu:%zu:%zu:%zu", c->what, &c->words, &c->look_ahead, &c->count, &c->batches);
    if (read != 5 || c->words < (size_t)size || c->look_ahead < 1) return 0;
    if (!is_power_of_two(c->words) || !is_power_of_two((size_t)size)) return 0;
    return strcmp(c->what, "update") == 0 || strcmp(c->what, "alone") == 0;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    counts = memory_of((size_t)size, sizeof(int));
    places = memory_of((size_t)size, sizeof(int));
    in_counts = memory_of((size_t)size, sizeof(int));
    in_places = memory_of((size_t)size, sizeof(int));
    for (int i = 1; i < argc; i++) {
        Case c;
        memset(&c, 0, sizeof c);
        if (!read_case(argv[i], &c)) fail("a case that cannot be read");
        prepare(&c);
        measure(&c, c.batches, argv[i]);
        munmap(c.table, c.words / (size_t)size * 8);
        free(out);
        free(in);
    }
    return end();
}
