/* The point-to-point benchmark with MPI. It makes the same calls as rank.rs and prints the same lines; keep both in step.
   Arguments: cases such as stream:65536:64:10:9 (task.rs). */

#include "peer.h"

enum { DATA = 1, ACK = 2, LINE = 64, MOST_OUTSTANDING = 4096 };
static const size_t FRESH_BYTES = (size_t)256 << 20;

struct Case {
    char pattern[16];
    size_t bytes, outstanding, count, batches;
};

static unsigned char *memory;
static size_t window_number;
static MPI_Request requests[MOST_OUTSTANDING];

static int is(const Case *c, const char *pattern)
{
    return strcmp(c->pattern, pattern) == 0;
}

static size_t stride(const Case *c)
{
    size_t s = (c->bytes + LINE - 1) / LINE * LINE;
    return s > LINE ? s : LINE;
}

static size_t windows(const Case *c)
{
    size_t n = is(c, "fresh") ? FRESH_BYTES / (c->outstanding * stride(c)) : 1;
    return n > 1 ? n : 1;
}

static size_t bytes_of(const Case *c)
{
    size_t needed = windows(c) * c->outstanding * stride(c);
    return needed > 2 * stride(c) ? needed : 2 * stride(c);
}

static void ping_pong(const Case *c, unsigned char stamp)
{
    unsigned char *out = memory, *into = memory + stride(c);
    if (rank == 0) {
        out[0] = stamp;
        MPI_Send(out, (int)c->bytes, MPI_BYTE, 1, DATA, MPI_COMM_WORLD);
        MPI_Recv(into, (int)c->bytes, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (c->bytes > 0 && into[0] != stamp) fail("another message came back than was sent");
    } else if (rank == 1) {
        MPI_Recv(into, (int)c->bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        out[0] = into[0];
        MPI_Send(out, (int)c->bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
    }
}

static void stream(const Case *c, unsigned char stamp)
{
    size_t step = stride(c);
    unsigned char *buffers = memory + window_number++ % windows(c) * c->outstanding * step;
    uint64_t sum = 0;
    if (rank == 0) {
        for (size_t i = 0; i < c->outstanding; i++) buffers[i * step] = stamp;
        for (size_t i = 0; i < c->outstanding; i++)
            MPI_Isend(buffers + i * step, (int)c->bytes, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall((int)c->outstanding, requests, MPI_STATUSES_IGNORE);
        MPI_Recv(&sum, 8, MPI_BYTE, 1, ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (c->bytes > 0 && sum != (uint64_t)stamp * c->outstanding) fail("other messages arrived than were sent");
    } else if (rank == 1) {
        for (size_t i = 0; i < c->outstanding; i++)
            MPI_Irecv(buffers + i * step, (int)c->bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall((int)c->outstanding, requests, MPI_STATUSES_IGNORE);
        for (size_t i = 0; i < c->outstanding; i++) sum += buffers[i * step];
        MPI_Send(&sum, 8, MPI_BYTE, 0, ACK, MPI_COMM_WORLD);
    }
}

static void ring(unsigned char stamp)
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    uint64_t token = stamp;
    if (rank == 0) {
        MPI_Send(&token, 8, MPI_BYTE, right, DATA, MPI_COMM_WORLD);
        MPI_Recv(&token, 8, MPI_BYTE, left, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (token != (uint64_t)stamp + size - 1) fail("another token came back than was sent");
    } else {
        MPI_Recv(&token, 8, MPI_BYTE, left, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token++;
        MPI_Send(&token, 8, MPI_BYTE, right, DATA, MPI_COMM_WORLD);
    }
}

static double batch(const Case *c)
{
    int is_ping_pong = is(c, "pingpong"), is_ring = is(c, "ring"), is_barrier = is(c, "barrier");
    size_t operations = is_ping_pong ? 2 : is_ring ? (size_t)size : is_barrier ? 1 : c->outstanding;
    double begun = micros();
    for (size_t turn = 0; turn <= c->count; turn++) {
        if (turn == 1) begun = micros();
        if (is_ping_pong) ping_pong(c, (unsigned char)turn);
        else if (is_ring) ring((unsigned char)turn);
        else if (is_barrier) MPI_Barrier(MPI_COMM_WORLD);
        else stream(c, (unsigned char)turn);
    }
    return (micros() - begun) / ((double)c->count * operations);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    Case *cases = calloc((size_t)argc, sizeof(Case));
    size_t most = 1;
    for (int i = 1; i < argc; i++) {
        Case *c = &cases[i];
        int read = sscanf(argv[i], "%15[a-z]:%zu:%zu:%zu:%zu", c->pattern, &c->bytes, &c->outstanding, &c->count,
                          &c->batches);
        if (read != 5 || c->outstanding < 1 || c->outstanding > MOST_OUTSTANDING) fail("a case that cannot be read");
        if (bytes_of(c) > most) most = bytes_of(c);
    }
    memory = malloc(most);
    if (!memory) fail("no memory for the buffers");
    memset(memory, 1, most);
    for (int i = 1; i < argc; i++) measure(&cases[i], cases[i].batches, argv[i]);
    return end();
}
