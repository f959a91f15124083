/* What programs do with many connections, and with sockets that several processes hold: `crowd BEHAVIOUR`. Prints what the
 * program saw, nothing that differs from run to run. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 4
#define CONNECTS 5000

static void die(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static struct addrinfo *look(const char *name) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list;
    int code = getaddrinfo(name, "80", &hints, &list);
    if (code != 0) {
        printf("getaddrinfo %s: %s\n", name, gai_strerror(code));
        exit(1);
    }
    return list;
}

/* Asks for the front page and prints its last line. */
static void get(int fd) {
    static const char request[] = "GET / HTTP/1.0\r\nHost: x\r\n\r\n";
    char page[4096];
    size_t len = 0;
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0) die("send");
    for (ssize_t n; len < sizeof page - 1 && (n = recv(fd, page + len, sizeof page - 1 - len, 0)) > 0; len += n)
        ;
    page[len] = 0;
    char *body = strstr(page, "\r\n\r\n");
    printf("page: %s", body ? body + 4 : "none\n");
}

static void visit(void) {
    struct addrinfo *a = look("v4.lab.example");
    int fd = socket(a->ai_family, SOCK_STREAM, 0);
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) die("connect");
    get(fd);
    close(fd);
}

/* Four processes that connect as fast as they can, to what answers and what refuses, and wait for nothing. */
static void flood(void) {
    struct addrinfo *to[] = {look("v4.lab.example"), look("v6.lab.example"), look("refused.lab.example")};
    fflush(stdout);
    for (int child = 0; child < CHILDREN; child++) {
        if (fork() != 0) continue;
        int odd = 0;
        for (int i = 0; i < CONNECTS; i++) {
            const struct addrinfo *a = to[i % 3];
            int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
            if (fd < 0) die("socket");
            int e = connect(fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
            odd += e != 0 && e != EINPROGRESS && e != ECONNREFUSED;
            close(fd);
        }
        _exit(odd > 100 ? 100 : odd);
    }
    for (int child = 0; child < CHILDREN; child++) {
        int status;
        if (wait(&status) < 0) die("wait");
        printf("a child saw %d odd errors\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    visit();
}

static void give(int through, int fd) {
    char byte = 'x', room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (sendmsg(through, &m, 0) != 1) die("sendmsg");
}

static int take(int through) {
    int fd = -1;
    char byte, room[CMSG_SPACE(sizeof fd)];
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    if (recvmsg(through, &m, 0) != 1) die("recvmsg");
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c) memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

/* A socket made here is connected by another process, which was handed it, and used here. */
static void passed(void) {
    struct addrinfo *a = look("v4.lab.example");
    int fd = socket(a->ai_family, SOCK_STREAM, 0), pair[2], status;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) die("socketpair");
    give(pair[0], fd);
    fflush(stdout);
    if (fork() == 0) {
        int taken = take(pair[1]);
        close(fd);
        _exit(connect(taken, a->ai_addr, a->ai_addrlen) == 0 ? 0 : 1);
    }
    wait(&status);
    printf("the other connected: %d\n", WEXITSTATUS(status));
    get(fd);
}

int main(int argc, char **argv) {
    /* Whatever hangs, fails. */
    alarm(200);
    if (argc == 2 && strcmp(argv[1], "flood") == 0) flood();
    else if (argc == 2 && strcmp(argv[1], "passed") == 0) passed();
    else return 2;
    return 0;
}
