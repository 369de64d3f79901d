/* Treepie's interface to MPI: a flat interface of bytes, ranks and small handles, so that a program that knows no MPI
 * header can use whichever MPI compiled this file. Compiled by the user's mpicc, loaded at run time.
 *
 * - PMPI_* only: a library that replaces MPI_* never sees our traffic.
 * - A private duplicate of MPI_COMM_WORLD: our tags and wildcards never meet the program's own MPI traffic.
 * - Errors are fatal there: MPI promises nothing after an error, and its own message names the call that failed.
 * - Nothing here blocks, except initialization and finalization.
 * - One thread. A handle identifies one request until a test reports its completion.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Incremented with every change of this interface; shim.rs has the same number. */
enum { INTERFACE = 4 };

enum { DONE = -1, NONE = -1, ANY_SOURCE = -1 };

struct world {
    int32_t rank, size;
    int32_t tag_ub;
    int32_t node_ranks; /* ranks on this node */
    int32_t node_cpus;  /* processors that at least one of them may run on */
    int32_t node_first; /* the lowest of them */
};

struct outcome {
    int32_t source;
    int32_t length;
};

/* That of messages, and one for the collective operations of programs: a rank that leaves without having called one must
 * not take part in it by its barrier. */
static MPI_Comm comm = MPI_COMM_NULL, collective_comm = MPI_COMM_NULL;
static int we_initialized;

/* Requests by handle, and a stack of the handles that are free. `candidates` is where test_any gathers. */
static MPI_Request *requests, *candidates;
static int32_t *free_handles;
static int32_t free_count, capacity;

static void *resized(void *memory, size_t count, size_t each)
{
    memory = realloc(memory, count * each);
    if (!memory) {
        fputs("treepie: out of memory for MPI requests\n", stderr);
        PMPI_Abort(MPI_COMM_WORLD, 1);
        _exit(1);
    }
    return memory;
}

static int32_t keep(MPI_Request request)
{
    if (free_count == 0) {
        int32_t more = capacity ? 2 * capacity : 128;
        requests = resized(requests, more, sizeof *requests);
        candidates = resized(candidates, more, sizeof *candidates);
        free_handles = resized(free_handles, more, sizeof *free_handles);
        for (int32_t handle = more - 1; handle >= capacity; handle--)
            free_handles[free_count++] = handle;
        capacity = more;
    }
    int32_t handle = free_handles[--free_count];
    requests[handle] = request;
    return handle;
}

static void release(int32_t handle)
{
    requests[handle] = MPI_REQUEST_NULL;
    free_handles[free_count++] = handle;
}

/* Bound ranks each see one processor of their own; only the union over the node tells whether they outnumber them. */
static void count_neighbors(struct world *world)
{
    MPI_Comm node;
    int ranks, rank, first;
    cpu_set_t mine, all;
    PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    PMPI_Comm_size(node, &ranks);
    if (sched_getaffinity(0, sizeof mine, &mine) != 0)
        CPU_ZERO(&mine);
    PMPI_Allreduce(&mine, &all, sizeof mine, MPI_BYTE, MPI_BOR, node);
    PMPI_Comm_rank(comm, &rank);
    PMPI_Allreduce(&rank, &first, 1, MPI_INT, MPI_MIN, node);
    PMPI_Comm_free(&node);
    world->node_ranks = ranks;
    world->node_first = first;
    world->node_cpus = CPU_COUNT(&all);
    if (world->node_cpus == 0)
        world->node_cpus = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
}

int32_t treepie_mpi_interface(void)
{
    return INTERFACE;
}

/* 0, or 1 if MPI has already been finalized in this process. */
int32_t treepie_mpi_begin(struct world *world)
{
    int flag, provided, rank, size, *tag_ub;
    PMPI_Finalized(&flag);
    if (flag)
        return 1;
    PMPI_Initialized(&flag);
    if (!flag) {
        PMPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
        we_initialized = 1;
    }
    PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
    PMPI_Comm_dup(MPI_COMM_WORLD, &collective_comm);
    PMPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    PMPI_Comm_set_errhandler(collective_comm, MPI_ERRORS_ARE_FATAL);
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_ub, &flag);
    world->rank = rank;
    world->size = size;
    world->tag_ub = flag ? *tag_ub : 32767; /* the least that the standard allows */
    count_neighbors(world);
    return 0;
}

/* Gathers a few bytes of each rank, in order. Collective, during initialization. */
void treepie_mpi_allgather(const void *from, int32_t bytes, void *into)
{
    PMPI_Allgather(from, bytes, MPI_BYTE, into, bytes, MPI_BYTE, comm);
}

/* The version text of the MPI library, at most `room` bytes with its end. */
void treepie_mpi_library(char *into, int32_t room)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    PMPI_Get_library_version(text, &length);
    snprintf(into, (size_t)room, "%s", text);
}

/* Starts a send of at most INT_MAX bytes. A handle, or DONE if it is already complete. */
int32_t treepie_mpi_isend(const void *from, uint64_t length, int32_t to, int32_t tag)
{
    MPI_Request request;
    int done;
    PMPI_Isend(from, (int)length, MPI_BYTE, to, tag, comm, &request);
    PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
    return done ? DONE : keep(request);
}

/* Starts a receive of at most INT_MAX bytes from a rank or from ANY_SOURCE. */
int32_t treepie_mpi_irecv(void *into, uint64_t room, int32_t from, int32_t tag)
{
    MPI_Request request;
    PMPI_Irecv(into, (int)room, MPI_BYTE, from == ANY_SOURCE ? MPI_ANY_SOURCE : from, tag, comm, &request);
    return keep(request);
}

int32_t treepie_mpi_ibarrier(void)
{
    MPI_Request request;
    PMPI_Ibarrier(comm, &request);
    return keep(request);
}

/* A collective operation of a program; shim.rs has the same numbers. */
struct collective {
    int32_t operation, element, op;
    int32_t count, root, in_place;
};

enum { BARRIER, BCAST, SCATTER, GATHER, ALLGATHER, ALLTOALL, ALLREDUCE, REDUCE, REDUCE_SCATTER_BLOCK, SCAN };

/* Starts a collective operation. */
int32_t treepie_mpi_icollective(const struct collective *what, const void *from, void *into)
{
    const MPI_Datatype types[] = {MPI_BYTE,    MPI_INT8_T,   MPI_INT16_T,  MPI_INT32_T, MPI_INT64_T, MPI_UINT8_T,
                                  MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T, MPI_FLOAT,   MPI_DOUBLE};
    const MPI_Op ops[] = {MPI_OP_NULL, MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR};
    MPI_Datatype type = types[what->element];
    MPI_Op op = ops[what->op];
    int count = what->count, root = what->root;
    MPI_Request request = MPI_REQUEST_NULL;
    if (what->in_place)
        from = MPI_IN_PLACE;
    switch (what->operation) {
    case BARRIER: PMPI_Ibarrier(collective_comm, &request); break;
    case BCAST: PMPI_Ibcast(into, count, type, root, collective_comm, &request); break;
    case SCATTER: PMPI_Iscatter(from, count, type, into, count, type, root, collective_comm, &request); break;
    case GATHER: PMPI_Igather(from, count, type, into, count, type, root, collective_comm, &request); break;
    case ALLGATHER: PMPI_Iallgather(from, count, type, into, count, type, collective_comm, &request); break;
    case ALLTOALL: PMPI_Ialltoall(from, count, type, into, count, type, collective_comm, &request); break;
    case ALLREDUCE: PMPI_Iallreduce(from, into, count, type, op, collective_comm, &request); break;
    case REDUCE: PMPI_Ireduce(from, into, count, type, op, root, collective_comm, &request); break;
    case REDUCE_SCATTER_BLOCK: PMPI_Ireduce_scatter_block(from, into, count, type, op, collective_comm, &request); break;
    case SCAN: PMPI_Iscan(from, into, count, type, op, collective_comm, &request); break;
    }
    return keep(request);
}

/* 1 if the request is complete; its handle is then free. */
int32_t treepie_mpi_test(int32_t handle, struct outcome *outcome)
{
    MPI_Status status;
    int done;
    PMPI_Test(&requests[handle], &done, &status);
    if (!done)
        return 0;
    outcome->source = status.MPI_SOURCE;
    PMPI_Get_count(&status, MPI_BYTE, &outcome->length);
    release(handle);
    return 1;
}

/* The index of a handle whose request is complete (the handle is then free), or NONE. */
int32_t treepie_mpi_test_any(const int32_t *handles, int32_t count)
{
    int index, done;
    for (int32_t i = 0; i < count; i++)
        candidates[i] = requests[handles[i]];
    PMPI_Testany(count, candidates, &index, &done, MPI_STATUS_IGNORE);
    if (!done || index == MPI_UNDEFINED)
        return NONE;
    release(handles[index]);
    return index;
}

/* Cancels a receive; a test still has to report its completion. */
void treepie_mpi_cancel(int32_t handle)
{
    PMPI_Cancel(&requests[handle]);
}

/* Frees the communicator, and finalizes MPI if it was initialized here. */
void treepie_mpi_end(void)
{
    PMPI_Comm_free(&collective_comm);
    PMPI_Comm_free(&comm);
    if (we_initialized)
        PMPI_Finalize();
}

/* Aborts the job. */
void treepie_mpi_abort(int32_t code)
{
    PMPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
}
