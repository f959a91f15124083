/* What programs do around getaddrinfo and connect, one behaviour a word: `inert BEHAVIOUR`. Prints what the program saw,
 * nothing that differs from run to run. The tests run each behaviour with and without headstart and compare. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define V4 "v4.lab.example"
#define V6 "v6.lab.example"
#define FAR "far.lab.example"
#define HOLE "hole.lab.example"
#define REFUSED "refused.lab.example"

static const char *word(int e) {
    switch (e) {
    case 0: return "ok";
    case EINPROGRESS: return "EINPROGRESS";
    case EALREADY: return "EALREADY";
    case EISCONN: return "EISCONN";
    case EINTR: return "EINTR";
    case ECONNREFUSED: return "ECONNREFUSED";
    case ENETUNREACH: return "ENETUNREACH";
    case EHOSTUNREACH: return "EHOSTUNREACH";
    case ETIMEDOUT: return "ETIMEDOUT";
    case EAFNOSUPPORT: return "EAFNOSUPPORT";
    case EINVAL: return "EINVAL";
    case EBADF: return "EBADF";
    case EFAULT: return "EFAULT";
    case ENOTSOCK: return "ENOTSOCK";
    case EPIPE: return "EPIPE";
    case EAGAIN: return "EAGAIN";
    case ECONNRESET: return "ECONNRESET";
    case ENOTCONN: return "ENOTCONN";
    default: return strerror(e);
    }
}

static void die(const char *what) {
    printf("%s: %s\n", what, word(errno));
    exit(1);
}

/* One address of `name`, whose port is 80 and whose family is known to be the only one. */
static struct addrinfo *look(const char *name, int family) {
    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM}, *list;
    int code = getaddrinfo(name, "80", &hints, &list);
    if (code != 0) {
        printf("getaddrinfo %s: %s\n", name, gai_strerror(code));
        exit(1);
    }
    return list;
}

static int try(int fd, const struct addrinfo *a) {
    errno = 0;
    int rc = connect(fd, a->ai_addr, a->ai_addrlen);
    return rc == 0 ? 0 : errno;
}

static int tcp(int family, int flags) {
    int fd = socket(family, SOCK_STREAM | flags, 0);
    if (fd < 0) die("socket");
    return fd;
}

static int so_error(int fd) {
    int e = -1;
    socklen_t len = sizeof e;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len);
    return e;
}

static int number(int fd, int level, int name) {
    int v = -1;
    socklen_t len = sizeof v;
    return getsockopt(fd, level, name, &v, &len) == 0 ? v : -errno;
}

/* Asks for the front page, which names the host and the family, and prints it. */
static void get(int fd) {
    static const char request[] = "GET / HTTP/1.0\r\nHost: x\r\n\r\n";
    char page[4096];
    size_t len = 0;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0) die("send");
    for (ssize_t n; len < sizeof page - 1 && (n = recv(fd, page + len, sizeof page - 1 - len, 0)) > 0; len += n)
        ;
    page[len] = 0;
    char *body = strstr(page, "\r\n\r\n");
    printf("page: %s", body ? body + 4 : "none\n");
}

static void writable(int fd) {
    struct pollfd p = {fd, POLLOUT, 0};
    int n = poll(&p, 1, 30000);
    printf("poll: %d%s%s%s\n", n, p.revents & POLLOUT ? " OUT" : "", p.revents & POLLERR ? " ERR" : "",
           p.revents & POLLHUP ? " HUP" : "");
}

static void ends(int fd) {
    struct sockaddr_storage s;
    char text[INET6_ADDRSTRLEN];
    socklen_t len = sizeof s;
    if (getpeername(fd, (void *)&s, &len) != 0) die("getpeername");
    void *addr = s.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)&s)->sin_addr
                                        : (void *)&((struct sockaddr_in6 *)&s)->sin6_addr;
    printf("peer: family %d length %u %s port %d\n", s.ss_family, len, inet_ntop(s.ss_family, addr, text, sizeof text),
           ntohs(((struct sockaddr_in *)&s)->sin_port));
    len = sizeof s;
    getsockname(fd, (void *)&s, &len);
    addr = s.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)&s)->sin_addr
                                  : (void *)&((struct sockaddr_in6 *)&s)->sin6_addr;
    printf("name: family %d length %u %s domain %d\n", s.ss_family, len, inet_ntop(s.ss_family, addr, text, sizeof text),
           number(fd, SOL_SOCKET, SO_DOMAIN));
}

static void blocking(void) {
    const char *names[] = {V4, V6};
    for (int i = 0; i < 2; i++) {
        struct addrinfo *a = look(names[i], AF_UNSPEC);
        int fd = tcp(a->ai_family, SOCK_CLOEXEC);
        errno = 12345;
        printf("connect: %d, errno %d\n", connect(fd, a->ai_addr, a->ai_addrlen), errno);
        ends(fd);
        printf("cloexec %d flags %x error %s\n", fcntl(fd, F_GETFD), fcntl(fd, F_GETFL), word(so_error(fd)));
        get(fd);
        close(fd);
        freeaddrinfo(a);
    }
}

static void mapped(void) {
    struct addrinfo *a = look(V4, AF_INET);
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
    to.sin6_addr.s6_addr[10] = to.sin6_addr.s6_addr[11] = 0xff;
    memcpy(to.sin6_addr.s6_addr + 12, &((struct sockaddr_in *)a->ai_addr)->sin_addr, 4);
    for (int only = 0; only < 2; only++) {
        int fd = tcp(AF_INET6, 0);
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
        errno = 0;
        int rc = connect(fd, (void *)&to, sizeof to);
        printf("v6only %d: %s\n", only, word(rc == 0 ? 0 : errno));
        if (rc == 0) {
            ends(fd);
            get(fd);
        }
        close(fd);
    }
}

static void udp(void) {
    struct addrinfo *a = look(V4, AF_UNSPEC);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    printf("connect: %s\n", word(try(fd, a)));
    ends(fd);
    printf("type %d\n", number(fd, SOL_SOCKET, SO_TYPE));
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    printf("dissolved: %d\n", connect(fd, &none, sizeof none));
}

static void local(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0headstart inert test"};
    int server = socket(AF_UNIX, SOCK_STREAM, 0), fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(server, (void *)&name, sizeof name) != 0 || listen(server, 1) != 0) die("listen");
    printf("connect: %d\n", connect(fd, (void *)&name, sizeof name));
    char c = 0;
    int other = accept(server, 0, 0);
    printf("sent %zd\n", write(fd, "x", 1));
    printf("received %zd\n", read(other, &c, 1));
    printf("it was %c\n", c);
}

static void to_numbers(const char *host) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *a;
    if (getaddrinfo(host, "80", &hints, &a) != 0) die("numeric");
    int fd = tcp(a->ai_family, 0);
    printf("connect: %s\n", word(try(fd, a)));
    ends(fd);
    get(fd);
}

static void numeric(void) {
    to_numbers("198.19.0.2");
    to_numbers("2001:db8:3::1");
}

static void unknown(void) {
    look(V4, AF_UNSPEC);
    to_numbers("198.19.0.1");
}

static void bound(void) {
    struct addrinfo *a = look(V4, AF_UNSPEC);
    struct sockaddr_in any = {.sin_family = AF_INET}, before, after;
    socklen_t len = sizeof before;
    int fd = tcp(AF_INET, 0);
    if (bind(fd, (void *)&any, sizeof any) != 0) die("bind");
    getsockname(fd, (void *)&before, &len);
    printf("connect: %s\n", word(try(fd, a)));
    getsockname(fd, (void *)&after, &len);
    printf("kept its port: %d\n", before.sin_port == after.sin_port && before.sin_port != 0);
    get(fd);
}

static void options(void) {
    struct {
        int level, name, value;
    } set[] = {
        {SOL_SOCKET, SO_RCVBUF, 50000},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {SOL_SOCKET, SO_REUSEADDR, 1},
        {SOL_SOCKET, SO_OOBINLINE, 1},
        {SOL_SOCKET, SO_PRIORITY, 3},
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 77},
        {IPPROTO_TCP, TCP_KEEPINTVL, 7},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, 54321},
        {IPPROTO_TCP, TCP_MAXSEG, 1000},
        {IPPROTO_IP, IP_TOS, 0x10},
        {IPPROTO_IP, IP_TTL, 33},
        {IPPROTO_TCP, TCP_SYNCNT, 2},
    };
    /* One alone at a time, then all at once. */
    int count = sizeof set / sizeof *set;
    for (int only = 0; only <= count; only++) {
        struct addrinfo *a = look(V4, AF_UNSPEC);
        int fd = tcp(AF_INET, 0);
        for (int i = 0; i < count; i++)
            if (only == count || only == i) setsockopt(fd, set[i].level, set[i].name, &set[i].value, sizeof(int));
        printf("connect: %s", word(try(fd, a)));
        for (int i = 0; i < count; i++) {
            /* Negotiated with the peer; that it was heeded shows in its being at most what was asked for. */
            int v = number(fd, set[i].level, set[i].name);
            printf(" %d", set[i].name == TCP_MAXSEG && set[i].level == IPPROTO_TCP ? v <= 1000 : v);
        }
        struct linger l = {-1, -1};
        socklen_t len = sizeof l;
        getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len);
        printf(" linger %d %d\n", l.l_onoff, l.l_linger);
        close(fd);
        freeaddrinfo(a);
    }
}

static void epoll_before(void) {
    for (int kind = 0; kind < 3; kind++) {
        struct addrinfo *a = look(V4, AF_UNSPEC);
        int fd = tcp(AF_INET, SOCK_NONBLOCK), set = epoll_create1(0), other = epoll_create1(0);
        struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | (kind ? EPOLLET : 0), .data.u64 = 99};
        epoll_ctl(set, EPOLL_CTL_ADD, fd, &e);
        if (kind == 2) {
            /* Taken out of one set again, and still in the other. */
            epoll_ctl(other, EPOLL_CTL_ADD, fd, &e);
            epoll_ctl(other, EPOLL_CTL_DEL, fd, &e);
        }
        int first = try(fd, a);
        printf("begun: %d\n", first == 0 || first == EINPROGRESS);
        do {
            memset(&e, 0, sizeof e);
            int n = epoll_wait(set, &e, 1, 30000);
            if (n != 1) {
                printf("epoll_wait: %d\n", n);
                return;
            }
        } while (!(e.events & EPOLLOUT) || e.events & EPOLLHUP);
        printf("events %x of %llu, error %s\n", e.events, (unsigned long long)e.data.u64, word(so_error(fd)));
        get(fd);
        close(fd), close(set), close(other);
        freeaddrinfo(a);
    }
}

static void dup_before(void) {
    for (int kind = 0; kind < 6; kind++) {
        struct addrinfo *a = look(V4, AF_UNSPEC);
        int fd = tcp(AF_INET, 0), other = -1;
        switch (kind) {
        case 0: other = dup(fd); break;
        case 1: other = dup2(fd, 77); break;
        case 2: other = dup3(fd, 78, O_CLOEXEC); break;
        case 3: other = fcntl(fd, F_DUPFD, 50); break;
        case 4: other = fcntl(fd, F_DUPFD_CLOEXEC, 60); break;
        case 5: {
            /* Watched and no longer watched, but still shared. */
            struct epoll_event e = {.events = EPOLLOUT};
            int set = epoll_create1(0);
            other = dup(fd);
            epoll_ctl(set, EPOLL_CTL_ADD, fd, &e);
            epoll_ctl(set, EPOLL_CTL_DEL, fd, &e);
            close(set);
        }
        }
        printf("kind %d connect: %s\n", kind, word(try(fd, a)));
        close(fd);
        ends(other);
        get(other);
        close(other);
        freeaddrinfo(a);
    }
}

static void fork_between(void) {
    struct addrinfo *a = look(V4, AF_UNSPEC);
    fflush(stdout);
    pid_t child = fork();
    if (child != 0) waitpid(child, 0, 0);
    int fd = tcp(AF_INET, 0);
    printf("%s connect: %s\n", child ? "parent" : "child", word(try(fd, a)));
    get(fd);
}

/* A socket that parent and child share: what one connects, the other uses. */
static void fork_with_socket(void) {
    for (int child_connects = 0; child_connects < 2; child_connects++) {
        struct addrinfo *a = look(V4, AF_UNSPEC);
        int fd = tcp(AF_INET, 0), ready[2];
        if (pipe(ready) != 0) die("pipe");
        fflush(stdout);
        pid_t child = fork();
        int mine = (child == 0) == child_connects;
        char c = 0;
        if (mine) {
            int e = try(fd, a);
            if (write(ready[1], "x", 1) != 1) die("write");
            if (child == 0) _exit(e);
        } else {
            if (read(ready[0], &c, 1) != 1) die("read");
            ends(fd);
            get(fd);
            fflush(stdout);
            if (child == 0) _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        printf("child ended with %d\n", WEXITSTATUS(status));
        close(fd);
    }
}

static void *connect_often(void *failures) {
    for (int i = 0; i < 50; i++) {
        struct addrinfo *a = look(i % 2 ? V4 : V6, AF_UNSPEC);
        int fd = tcp(a->ai_family, 0);
        char answer[16];
        if (try(fd, a) != 0 || send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL) != 18
            || recv(fd, answer, 15, MSG_WAITALL) != 15 || memcmp(answer, "HTTP/1.1 200 OK", 15) != 0)
            __atomic_fetch_add((int *)failures, 1, __ATOMIC_RELAXED);
        close(fd);
        freeaddrinfo(a);
    }
    return 0;
}

static void threads(void) {
    pthread_t t[16];
    int failures = 0;
    for (int i = 0; i < 16; i++) pthread_create(&t[i], 0, connect_often, &failures);
    for (int i = 0; i < 16; i++) pthread_join(t[i], 0);
    printf("failures: %d\n", failures);
}

static void closefrom_before(void) {
    struct addrinfo *a = look(V4, AF_UNSPEC);
    if (syscall(SYS_close_range, 3, ~0U, 0) != 0)
        for (int i = 3; i < 1024; i++) close(i);
    int fd = tcp(AF_INET, 0);
    printf("descriptor %d connect: %s\n", fd, word(try(fd, a)));
    get(fd);
}

static void nonblocking(void) {
    const char *names[] = {V4, V6};
    for (int i = 0; i < 2; i++) {
        struct addrinfo *a = look(names[i], AF_UNSPEC);
        int fd = tcp(a->ai_family, SOCK_NONBLOCK), first = try(fd, a);
        printf("begun: %d\n", first == 0 || first == EINPROGRESS);
        writable(fd);
        printf("error %s flags %x\n", word(so_error(fd)), fcntl(fd, F_GETFL));
        ends(fd);
        get(fd);
        close(fd);
    }
}

static void refused(void) {
    struct addrinfo *a = look(REFUSED, AF_UNSPEC);
    printf("blocking: %s\n", word(try(tcp(AF_INET6, 0), a)));
    /* Often, since what is told of a failure can be told only once, and somebody else might have asked first. */
    for (int i = 0; i < 30; i++) {
        a = look(REFUSED, AF_UNSPEC);
        int fd = tcp(AF_INET6, SOCK_NONBLOCK), first = try(fd, a);
        if (first == EINPROGRESS) {
            struct pollfd p = {fd, POLLOUT, 0};
            poll(&p, 1, 30000);
            usleep(i % 3 * 1000);
            first = so_error(fd);
        }
        printf("non-blocking: %s\n", word(first));
        close(fd);
        freeaddrinfo(a);
    }
}

static void again(void) {
    struct addrinfo *a = look(V4, AF_UNSPEC);
    int fd = tcp(AF_INET, 0);
    printf("first: %s\n", word(try(fd, a)));
    printf("again: %s\n", word(try(fd, a)));
    get(fd);
    a = look(FAR, AF_UNSPEC);
    fd = tcp(AF_INET, SOCK_NONBLOCK);
    printf("first: %s\n", word(try(fd, a)));
    printf("again: %s\n", word(try(fd, a)));
    writable(fd);
    printf("when done: %s\n", word(try(fd, a)));
    printf("after: %s\n", word(try(fd, a)));
    get(fd);
}

static void nothing(int signal) { (void)signal; }

/* A signal in the middle of a blocking connect, to a host that takes two seconds. */
static void interrupted(int flags) {
    struct sigaction act = {.sa_handler = nothing, .sa_flags = flags};
    sigaction(SIGALRM, &act, 0);
    struct addrinfo *a = look(FAR, AF_UNSPEC);
    int fd = tcp(AF_INET, 0);
    struct itimerval soon = {.it_value.tv_usec = 300000};
    setitimer(ITIMER_REAL, &soon, 0);
    int first = try(fd, a);
    printf("connect: %s flags %x\n", word(first), fcntl(fd, F_GETFL));
    if (first == EINTR) writable(fd);
    printf("error %s\n", word(so_error(fd)));
    get(fd);
}

static void eintr(void) { interrupted(0); }
static void sa_restart(void) { interrupted(SA_RESTART); }

/* Many signals while names are looked up and connections begun: neither call reports them. */
static void signals_everywhere(void) {
    struct sigaction act = {.sa_handler = nothing};
    sigaction(SIGALRM, &act, 0);
    struct itimerval often = {.it_interval.tv_usec = 500, .it_value.tv_usec = 500};
    setitimer(ITIMER_REAL, &often, 0);
    int good = 0;
    for (int i = 0; i < 40; i++) {
        struct addrinfo *a = look(V4, AF_UNSPEC);
        int fd = tcp(AF_INET, SOCK_NONBLOCK), first = try(fd, a);
        good += first == 0 || first == EINPROGRESS;
        close(fd);
        freeaddrinfo(a);
    }
    printf("good: %d\n", good);
}

static void sndtimeo(void) {
    struct addrinfo *a = look(HOLE, AF_UNSPEC);
    int fd = tcp(AF_INET6, 0);
    struct timeval patience = {0, 300000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    printf("connect: %s\n", word(try(fd, a)));
    clock_gettime(CLOCK_MONOTONIC, &after);
    long ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    /* 10 ms: timeouts of sockets count in ticks. */
    printf("early %d, late by ten seconds %d, flags %x\n", ms < 290, ms > 10300, fcntl(fd, F_GETFL));
    a = look(V4, AF_UNSPEC);
    fd = tcp(AF_INET, 0);
    patience.tv_sec = 30;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    printf("connect: %s\n", word(try(fd, a)));
    socklen_t len = sizeof patience;
    getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, &len);
    printf("timeout still %ld.%06ld\n", (long)patience.tv_sec, (long)patience.tv_usec);
    get(fd);
}

static void *connect_far(void *list) {
    int fd = tcp(AF_INET, 0);
    try(fd, list);
    pthread_testcancel();
    return 0;
}

static void *look_long(void *none) {
    look("slow-dns.lab.example", AF_UNSPEC);
    pthread_testcancel();
    return none;
}

/* A thread that is cancelled while it waits ends alone. */
static void cancelled(void) {
    struct addrinfo *a = look(FAR, AF_UNSPEC);
    for (int kind = 0; kind < 2; kind++) {
        pthread_t t;
        void *result;
        pthread_create(&t, 0, kind ? look_long : connect_far, a);
        usleep(300000);
        pthread_cancel(t);
        pthread_join(t, &result);
        printf("cancelled: %d\n", result == PTHREAD_CANCELED);
    }
}

static struct { int fd; struct addrinfo *to; } busy;

static void *connect_busy(void *none) {
    try(busy.fd, busy.to);
    return none;
}

/* What a thread puts in the place of a socket that another one is connecting stays there. */
static void replaced(void) {
    busy.to = look(FAR, AF_UNSPEC);
    for (int by_dup = 0; by_dup < 2; by_dup++) {
        busy.fd = tcp(busy.to->ai_family, 0);
        pthread_t t;
        pthread_create(&t, 0, connect_busy, 0);
        usleep(100000);
        int zero = open("/dev/zero", O_RDONLY);
        if (by_dup) dup2(zero, busy.fd);
        else {
            close(busy.fd);
            printf("lowest: %d\n", open("/dev/zero", O_RDONLY) == busy.fd);
        }
        pthread_join(t, 0);
        char c = 1;
        ssize_t n = read(busy.fd, &c, 1);
        printf("there: %d %d\n", (int)n, c);
        close(busy.fd);
        close(zero);
    }
}

static void nonsense(void) {
    struct addrinfo *a = look(V4, AF_UNSPEC);
    errno = 0;
    printf("not open: %s\n", word(try(999, a)));
    printf("not a socket: %s\n", word(try(0, a)));
    int fd = tcp(AF_INET, 0);
    errno = 0;
    int rc = connect(fd, a->ai_addr, 3);
    printf("short: %d %s\n", rc, word(errno));
    rc = connect(fd, 0, 16);
    printf("no address: %d %s\n", rc, word(errno));
    printf("other family: %s\n", word(try(tcp(AF_INET6, 0), a)));
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    printf("dissolve: %d\n", connect(fd, &none, sizeof none));
    int server = tcp(AF_INET, 0);
    listen(server, 1);
    printf("listening: %s\n", word(try(server, a)));
    printf("still good: %s\n", word(try(fd, a)));
    get(fd);
}

/* A namespace without any network: what the supervisor could reach, this program may not. */
static void elsewhere(void) {
    struct addrinfo *a = look(V4, AF_UNSPEC), *b;
    if (unshare(CLONE_NEWNET) != 0) die("unshare");
    printf("connect: %s\n", word(try(tcp(AF_INET, 0), a)));
    printf("non-blocking: %s\n", word(try(tcp(AF_INET, SOCK_NONBLOCK), a)));
    printf("getaddrinfo: %d\n", getaddrinfo("www.lab.example", "80", 0, &b));
}

static void descriptors(void) {
    for (int i = 0; i < 200; i++) {
        struct addrinfo *a = look(i % 2 ? V4 : V6, AF_UNSPEC);
        int fd = tcp(a->ai_family, i % 4 < 2 ? SOCK_NONBLOCK : 0), e = try(fd, a);
        if (e == EINPROGRESS) {
            struct pollfd p = {fd, POLLOUT, 0};
            poll(&p, 1, 30000);
            e = so_error(fd);
        }
        if (e != 0) printf("connect %d: %s\n", i, word(e));
        close(fd);
        freeaddrinfo(a);
    }
    const char *folders[] = {"/proc/self/fd", "/proc/self/task"};
    for (int i = 0; i < 2; i++) {
        DIR *d = opendir(folders[i]);
        int open = 0;
        for (struct dirent *e; (e = readdir(d));) {
            if (e->d_name[0] == '.') continue;
            if (i == 0) printf("%s ", e->d_name);
            open++;
        }
        printf("%s: %d\n", folders[i], open);
        closedir(d);
    }
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, 0, &blocked);
    for (int i = 1; i < 32; i++) {
        struct sigaction act;
        sigaction(i, 0, &act);
        if (act.sa_handler != SIG_DFL || sigismember(&blocked, i)) printf("signal %d\n", i);
    }
}

/* Connects again and again until it is told to stop, by the end of its input; prints a line a connection. */
static void endless(void) {
    for (;;) {
        struct pollfd p = {0, POLLIN, 0};
        struct addrinfo *a = look(V4, AF_UNSPEC);
        int fd = tcp(AF_INET, 0);
        int e = try(fd, a);
        printf("connect: %s\n", word(e));
        if (e == 0) get(fd);
        fflush(stdout);
        close(fd);
        freeaddrinfo(a);
        if (poll(&p, 1, 1) != 0) return;
    }
}

int main(int argc, char **argv) {
    /* Whatever hangs, fails. */
    alarm(100);
    static const struct {
        const char *name;
        void (*does)(void);
    } all[] = {
        {"blocking", blocking},
        {"mapped", mapped},
        {"udp", udp},
        {"local", local},
        {"numeric", numeric},
        {"unknown", unknown},
        {"bound", bound},
        {"options", options},
        {"epoll_before", epoll_before},
        {"dup_before", dup_before},
        {"fork_between", fork_between},
        {"fork_with_socket", fork_with_socket},
        {"threads", threads},
        {"closefrom_before", closefrom_before},
        {"nonblocking", nonblocking},
        {"refused", refused},
        {"again", again},
        {"eintr", eintr},
        {"sa_restart", sa_restart},
        {"signals_everywhere", signals_everywhere},
        {"sndtimeo", sndtimeo},
        {"cancelled", cancelled},
        {"replaced", replaced},
        {"nonsense", nonsense},
        {"elsewhere", elsewhere},
        {"descriptors", descriptors},
        {"endless", endless},
    };
    for (size_t i = 0; argc == 2 && i < sizeof all / sizeof *all; i++)
        if (strcmp(argv[1], all[i].name) == 0) {
            all[i].does();
            return 0;
        }
    printf("inert: no such behaviour\n");
    return 2;
}
