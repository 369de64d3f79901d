/* The sparse exchange benchmark with MPI: MPI_Alltoall of the counts, then MPI_Alltoallv. It exchanges the same messages
   as rank.rs, batch by batch, and prints the same lines; keep both in step.
   Arguments: cases such as 1:6:1-1024:200:9 (task.rs). */

#include "peer.h"

enum { BEGINS = 256 };

struct Case {
    const char *text;
    uint64_t seed;
    size_t neighbors, shortest, longest, count, batches;
    int *send_counts, *send_places; /* for each round, for each rank */
    size_t *begins;                 /* offset of each round in the send buffer */
    size_t *comes, *bytes_come;     /* messages and bytes expected in each round */
    int *last;                      /* bytes from each rank in the last round */
    size_t all_ranks_send;          /* bytes in a batch */
    size_t by_receivers;            /* the same, weighted by the receiver's rank */
    unsigned char *data, *into;
};

static unsigned char *pattern;
static size_t turn_number;

/* The 64-bit Mersenne Twister.   [Nishimura, Matsumoto] */
enum { WORDS = 312, MIDDLE = 156 };
static uint64_t state[WORDS];
static int next_word;

static void begin_with(uint64_t seed)
{
    state[0] = seed;
    for (int i = 1; i < WORDS; i++)
        state[i] = 6364136223846793005u * (state[i - 1] ^ (state[i - 1] >> 62)) + (uint64_t)i;
    next_word = WORDS;
}

static void begin_with_key(const uint64_t *key, int length)
{
    int i = 1, j = 0;
    begin_with(19650218u);
    for (int step = 0; step < WORDS; step++) {
        state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 62)) * 3935559000370003845u)) + key[j] + (uint64_t)j;
        j = (j + 1) % length;
        if (++i == WORDS) {
            state[0] = state[WORDS - 1];
            i = 1;
        }
    }
    for (int step = 0; step < WORDS - 1; step++) {
        state[i] = (state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 62)) * 2862933555777941757u)) - (uint64_t)i;
        if (++i == WORDS) {
            state[0] = state[WORDS - 1];
            i = 1;
        }
    }
    state[0] = (uint64_t)1 << 63;
}

static uint64_t draw(void)
{
    if (next_word == WORDS) {
        for (int i = 0; i < WORDS; i++) {
            uint64_t both = (state[i] & 0xffffffff80000000u) | (state[(i + 1) % WORDS] & 0x7fffffffu);
            state[i] = state[(i + MIDDLE) % WORDS] ^ (both >> 1) ^ ((both & 1) ? 0xb5026f5aa96619e9u : 0);
        }
        next_word = 0;
    }
    uint64_t word = state[next_word++];
    word ^= (word >> 29) & 0x5555555555555555u;
    word ^= (word << 17) & 0x71d67fffeda60000u;
    word ^= (word << 37) & 0xfff7eee000000000u;
    return word ^ (word >> 43);
}

/* A number below a bound: the upper half of the product. */
static uint64_t below(uint64_t bound)
{
    uint64_t word = draw(), low = word & 0xffffffffu, high = word >> 32;
    uint64_t bound_low = bound & 0xffffffffu, bound_high = bound >> 32;
    uint64_t middle = high * bound_low + ((low * bound_low) >> 32), other = low * bound_high + (middle & 0xffffffffu);
    return high * bound_high + (middle >> 32) + (other >> 32);
}

/* Bytes to each rank: the first k of a shuffle of all other ranks, each with a size. */
static void draw_messages(const Case *c, int from, size_t round, int *counts)
{
    static int *others;
    uint64_t key[3] = {c->seed, (uint64_t)from, (uint64_t)round};
    size_t all = (size_t)size - 1, few = c->neighbors < all ? c->neighbors : all;
    if (!others && !(others = malloc((size_t)size * sizeof(int)))) fail("no memory for targets");
    for (size_t i = 0; i < all; i++) others[i] = (int)i;
    for (int r = 0; r < size; r++) counts[r] = -1;
    begin_with_key(key, 3);
    for (size_t place = 0; place < few; place++) {
        size_t other = place + (size_t)below(all - place);
        int target = others[other];
        others[other] = others[place];
        counts[target < from ? target : target + 1] = (int)(c->shortest + (size_t)below(c->longest - c->shortest + 1));
    }
}

static int read_case(const char *text, Case *c)
{
    unsigned long long seed;
    int read = sscanf(text, "%llu:%zu:%zu-%zu:%zu:%zu", &seed, &c->neighbors, &c->shortest, &c->longest, &c->count,
                      &c->batches);
    c->text = text;
    c->seed = seed;
    return read == 6 && c->shortest <= c->longest && c->count > 0 && c->batches > 0;
}

/* Sizes of all messages, sent and expected. */
static void shape(Case *c)
{
    size_t ranks = (size_t)size, rounds = c->count + 1, total = 0, most = 0;
    int *counts = memory_of(ranks, sizeof(int));
    c->send_counts = memory_of(rounds * ranks, sizeof(int));
    c->send_places = memory_of(rounds * ranks, sizeof(int));
    c->begins = memory_of(rounds, sizeof(size_t));
    c->comes = memory_of(rounds, sizeof(size_t));
    c->bytes_come = memory_of(rounds, sizeof(size_t));
    c->last = memory_of(ranks, sizeof(int));
    for (size_t round = 0; round < rounds; round++) {
        int place = 0;
        for (int from = 0; from < size; from++) {
            draw_messages(c, from, round, counts);
            for (int to = 0; to < size; to++)
                if (counts[to] > 0) {
                    c->all_ranks_send += (size_t)counts[to];
                    c->by_receivers += (size_t)counts[to] * (size_t)to;
                }
            if (round == c->count) c->last[from] = from == rank ? -1 : counts[rank];
            if (from != rank && counts[rank] >= 0) {
                c->comes[round]++;
                c->bytes_come[round] += (size_t)counts[rank];
            }
            if (from != rank) continue;
            c->begins[round] = total;
            for (int to = 0; to < size; to++) {
                size_t at = round * ranks + (size_t)to;
                c->send_counts[at] = counts[to] > 0 ? counts[to] : 0;
                c->send_places[at] = place;
                place += c->send_counts[at];
            }
            total += (size_t)place;
        }
        if (c->bytes_come[round] > most) most = c->bytes_come[round];
    }
    c->data = memory_of(total, 1);
    c->into = memory_of(most, 1);
    memset(c->into, 1, most);
    free(counts);
}

static void release(Case *c)
{
    free(c->send_counts);
    free(c->send_places);
    free(c->begins);
    free(c->comes);
    free(c->bytes_come);
    free(c->last);
    free(c->data);
    free(c->into);
}

static const unsigned char *message(int from, int to, size_t round)
{
    return pattern + (17 * (size_t)from + 5 * (size_t)to + 3 * round + turn_number) % BEGINS;
}

static void prepare(const Case *c)
{
    for (size_t round = 0; round <= c->count; round++)
        for (int to = 0; to < size; to++) {
            size_t at = round * (size_t)size + (size_t)to;
            memcpy(c->data + c->begins[round] + c->send_places[at], message(rank, to, round), (size_t)c->send_counts[at]);
        }
}

static void check(const Case *c, const size_t *came, const size_t *bytes_came, const int *counts, const int *places)
{
    for (size_t round = 0; round <= c->count; round++) {
        /* An empty message does not count here. */
        if (bytes_came[round] == c->bytes_come[round] && (c->shortest == 0 || came[round] == c->comes[round])) continue;
        fprintf(stderr, "%s: rank %d got %zu bytes instead of %zu in round %zu\n", c->text, rank, bytes_came[round],
                c->bytes_come[round], round);
        fail("a wrong result");
    }
    for (int from = 0; from < size; from++) {
        int bytes = c->last[from] > 0 ? c->last[from] : 0;
        if (counts[from] == bytes && memcmp(c->into + places[from], message(from, rank, c->count), (size_t)bytes) == 0)
            continue;
        fprintf(stderr, "%s: rank %d got something else than rank %d sent\n", c->text, rank, from);
        fail("a wrong result");
    }
}

static double batch(const Case *c)
{
    size_t *came = memory_of(c->count + 1, sizeof(size_t)), *bytes_came = memory_of(c->count + 1, sizeof(size_t));
    int *counts = memory_of((size_t)size, sizeof(int)), *places = memory_of((size_t)size, sizeof(int));
    turn_number++;
    prepare(c);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = micros();
    for (size_t round = 0; round <= c->count; round++) {
        if (round == 1) begun = micros();
        int *send_counts = c->send_counts + round * (size_t)size, *send_places = c->send_places + round * (size_t)size;
        int place = 0;
        MPI_Alltoall(send_counts, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
        for (int from = 0; from < size; from++) {
            places[from] = place;
            place += counts[from];
            came[round] += counts[from] > 0;
        }
        bytes_came[round] = (size_t)place;
        /* More than expected does not fit. */
        if (bytes_came[round] > c->bytes_come[round]) fail("a wrong count");
        MPI_Alltoallv(c->data + c->begins[round], send_counts, send_places, MPI_BYTE, c->into, counts, places, MPI_BYTE,
                      MPI_COMM_WORLD);
    }
    double mine = micros() - begun;
    check(c, came, bytes_came, counts, places);
    free(came);
    free(bytes_came);
    free(counts);
    free(places);
    return slowest(mine) / (double)c->count;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        Case c = {0};
        if (!read_case(argv[i], &c)) fail("a case that cannot be read");
        shape(&c);
        pattern = memory_of(c.longest + BEGINS, 1);
        for (size_t place = 0; place < c.longest + BEGINS; place++)
            pattern[place] = (unsigned char)(place + (place >> 8));
        measure(&c, c.batches, argv[i]);
        if (rank == 0) printf("sent %s %zu %zu\n", argv[i], c.all_ranks_send, c.by_receivers);
        free(pattern);
        release(&c);
    }
    return end();
}
