// The links between the hosts of testbed/run: one process that delays and meters packets, each direction on its own.
//
//   link PID...
//
// PIDs are processes in the network namespaces of hosts 0, 1, ... Host A reaches host B through the TUN device
// "hostB" in its namespace, so each pair of hosts has a link that no other pair shares. Standard input has lines
//
//   A B LATENCY RATE QUEUE    from now on, packets from A to B take LATENCY ns, at RATE bytes per second, and QUEUE
//                             bytes of them wait at most; packets that are on the link already keep their times
//   end                       print what each direction carried to standard error, and exit
//
// "ready" is printed as soon as all directions are set.
//
// A direction is a FIFO: a packet begins when it has arrived and the one before it is through, takes its length / RATE,
// and is delivered LATENCY later. The length is that of the whole IP packet, with its headers, as a real interface
// counts it: at an MTU of 1500, TCP with timestamps has 1448 bytes of payload in each, so 1 MB/s carry 0.965 MB/s.
// A packet that finds QUEUE bytes waiting is dropped, as by a router: TUN devices have no other back-pressure, since
// what the kernel cannot queue for an unread device it drops too.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MAX_HOSTS = 32, MAX_PACKET = 65536, PACKETS_AT_A_TIME = 64, TOLERANCE = 300000 };

struct packet {
    struct packet *next;
    uint64_t due; // in ns of CLOCK_MONOTONIC
    size_t length;
    char bytes[];
};

struct direction {
    int in, out; // TUN devices of the sender and of the receiver
    uint64_t latency, rate, queue;
    uint64_t free_at;            // when the last packet that was accepted is through
    struct packet *first, *last; // in order of delivery
    uint64_t packets, bytes, dropped, longest_queue, late, latest;
};

static struct direction directions[MAX_HOSTS][MAX_HOSTS];
static int hosts;

static void fail(const char *what) {
    fprintf(stderr, "testbed: link: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int open_tun(const char *name) {
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) fail("/dev/net/tun");
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (ioctl(fd, TUNSETIFF, &request) < 0) fail(name);
    return fd;
}

// The devices of one host. A device stays in the namespace in which it was opened.
static void open_host(int host, const char *pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    int namespace = open(path, O_RDONLY | O_CLOEXEC);
    if (namespace < 0 || setns(namespace, CLONE_NEWNET) < 0) fail(path);
    close(namespace);
    // The device with the host's address carries nothing, but MPIs use it only if something is connected to it.
    open_tun("nic");
    for (int peer = 0; peer < hosts; peer++) {
        char name[IFNAMSIZ];
        snprintf(name, sizeof name, "host%d", peer);
        if (peer != host) directions[host][peer].in = directions[peer][host].out = open_tun(name);
    }
}

// Accepts what the sender's kernel has for this direction.
static void receive(struct direction *link) {
    static char bytes[MAX_PACKET];
    for (int count = 0; count < PACKETS_AT_A_TIME; count++) {
        ssize_t length = read(link->in, bytes, sizeof bytes);
        if (length <= 0) {
            // A host whose namespace is gone leaves a device that is always ready and never has a packet.
            if (length < 0 && errno != EAGAIN && errno != EINTR) fail("a host's device");
            return;
        }
        uint64_t time = now();
        uint64_t begin = link->free_at > time ? link->free_at : time;
        uint64_t waiting = (uint64_t)((double)(begin - time) * (double)link->rate / 1e9);
        if (waiting > link->longest_queue) link->longest_queue = waiting;
        if (waiting + (uint64_t)length > link->queue) {
            link->dropped++;
            continue;
        }
        struct packet *packet = malloc(sizeof *packet + (size_t)length);
        if (!packet) fail("memory");
        memcpy(packet->bytes, bytes, (size_t)length);
        packet->next = NULL;
        packet->length = (size_t)length;
        link->free_at = begin + (uint64_t)((double)length * 1e9 / (double)link->rate);
        packet->due = link->free_at + link->latency;
        // A link whose latency has become shorter does not reorder packets.
        if (link->first && packet->due < link->last->due) packet->due = link->last->due;
        if (link->first) link->last->next = packet;
        else link->first = packet;
        link->last = packet;
        link->packets++;
        link->bytes += (uint64_t)length;
    }
}

// Delivers the packets that are due, and returns when the next one is.
static uint64_t deliver(struct direction *link) {
    while (link->first) {
        struct packet *packet = link->first;
        uint64_t time = now();
        if (packet->due > time) return packet->due;
        link->late += time - packet->due > TOLERANCE;
        if (time - packet->due > link->latest) link->latest = time - packet->due;
        // It fails if the receiver's device is down; then the packet is lost, as on a cable.
        if (write(link->out, packet->bytes, packet->length) < 0) link->dropped++;
        link->first = packet->next;
        free(packet);
    }
    return UINT64_MAX;
}

static void summarize(void) {
    for (int from = 0; from < hosts; from++)
        for (int to = 0; to < hosts; to++) {
            struct direction *link = &directions[from][to];
            if (from == to) continue;
            fprintf(stderr, "testbed: %d-%d: %ju packets, %ju bytes, %ju dropped, ", from, to, (uintmax_t)link->packets,
                    (uintmax_t)link->bytes, (uintmax_t)link->dropped);
            fprintf(stderr, "queue up to %ju bytes, %ju late by 0.3 ms or more, at most %.2f ms\n",
                    (uintmax_t)link->longest_queue, (uintmax_t)link->late, (double)link->latest / 1e6);
        }
}

static void command(const char *line) {
    static int count;
    int from, to;
    uintmax_t latency, rate, queue;
    if (!strcmp(line, "end")) {
        summarize();
        exit(0);
    }
    if (sscanf(line, "%d %d %ju %ju %ju", &from, &to, &latency, &rate, &queue) != 5 || from < 0 || from >= hosts ||
        to < 0 || to >= hosts || from == to || rate == 0) {
        fprintf(stderr, "testbed: link: not understood: %s\n", line);
        exit(1);
    }
    struct direction *link = &directions[from][to];
    count += link->rate == 0;
    int complete = link->rate == 0 && count == hosts * (hosts - 1);
    link->latency = latency, link->rate = rate, link->queue = queue;
    if (complete) {
        puts("ready");
        fflush(stdout);
    }
}

// Lines of standard input, which come in any pieces.
static void read_commands(void) {
    static char text[4096];
    static size_t length;
    ssize_t more = read(STDIN_FILENO, text + length, sizeof text - 1 - length);
    if (more <= 0) exit(0);
    length += (size_t)more;
    text[length] = 0;
    char *line = text, *end;
    for (; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        command(line);
    }
    length -= (size_t)(line - text);
    memmove(text, line, length);
}

int main(int count, char **arguments) {
    hosts = count - 1;
    if (hosts < 2 || hosts > MAX_HOSTS) {
        fprintf(stderr, "usage: link PID...    (2 to %d of them)\n", MAX_HOSTS);
        return 2;
    }
    for (int host = 0; host < hosts; host++) open_host(host, arguments[host + 1]);
    // Ranks that poll would delay the links by time slices of several ms. This process hardly ever runs, so it may
    // precede them; where that is not permitted, the summary shows how late packets were.
    struct sched_param priority = {.sched_priority = 10};
    sched_setscheduler(0, SCHED_FIFO, &priority);

    int poll = epoll_create1(EPOLL_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (poll < 0 || timer < 0) fail("epoll and timerfd");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, STDIN_FILENO, &event) < 0) fail("standard input");
    event.data.ptr = &timer;
    if (epoll_ctl(poll, EPOLL_CTL_ADD, timer, &event) < 0) fail("timer");
    for (int from = 0; from < hosts; from++)
        for (int to = 0; to < hosts; to++)
            if (from != to) {
                event.data.ptr = &directions[from][to];
                if (epoll_ctl(poll, EPOLL_CTL_ADD, directions[from][to].in, &event) < 0) fail("epoll");
            }
    for (;;) {
        uint64_t next = UINT64_MAX;
        for (int from = 0; from < hosts; from++)
            for (int to = 0; to < hosts; to++) {
                uint64_t due = deliver(&directions[from][to]);
                if (due < next) next = due;
            }
        struct itimerspec at = {0}; // Zero disarms.
        if (next != UINT64_MAX) {
            at.it_value.tv_sec = (time_t)(next / 1000000000u);
            at.it_value.tv_nsec = (long)(next % 1000000000u);
        }
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
        struct epoll_event events[64];
        int ready = epoll_wait(poll, events, 64, -1);
        for (int i = 0; i < ready; i++) {
            void *of = events[i].data.ptr;
            uint64_t expirations;
            if (!of) read_commands();
            else if (of != &timer) receive(of);
            else if (read(timer, &expirations, sizeof expirations) < 0) continue; // It was set again meanwhile.
        }
    }
}
