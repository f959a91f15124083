/* Connects a socket that something else holds too, or that another thread or a signal handler acts on, in the way that its first
   argument names, to the second; says what became of it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static struct addrinfo *to;
static int fd;

static const char *said(int result) { return result < 0 ? strerror(errno) : "ok"; }

static int connects(void) { return connect(fd, to->ai_addr, to->ai_addrlen); }

static void *waits(void *nothing) {
    (void)nothing;
    printf("connect: %s\n", said(connects()));
    return NULL;
}

/* What the other holder has must be what connects: the same socket before and after. */
static int same_after(void) {
    char before[64] = "", after[64] = "", path[32];
    sprintf(path, "/proc/self/fd/%d", fd);
    if (readlink(path, before, sizeof before - 1) < 0) return 2;
    printf("connect: %s\n", said(connects()));
    if (readlink(path, after, sizeof after - 1) < 0) return 2;
    puts(strcmp(before, after) ? "another socket" : "the same socket");
    return 0;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    if (getaddrinfo(words[2], "80", &hints, &to)) return 3;
    const char *how = words[1];
    fd = socket(to->ai_family, SOCK_STREAM, 0);
    if (!strcmp(how, "alone")) return same_after();
    if (!strcmp(how, "spawn")) {
        char *sleeps[] = {"sleep", "5", NULL};
        pid_t child;
        if (posix_spawnp(&child, "sleep", NULL, NULL, sleeps, environ)) return 4;
        int result = same_after();
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        return result;
    }
    if (!strcmp(how, "vfork")) {
        pid_t child = vfork();
        if (child == 0) {
            execlp("sleep", "sleep", "5", NULL);
            _exit(127);
        }
        int result = same_after();
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        return result;
    }
    if (!strcmp(how, "message")) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 4;
        char byte = 'x', control[CMSG_SPACE(sizeof fd)] = {0};
        struct iovec part = {&byte, 1};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
        if (sendmsg(pair[0], &message, 0) != 1) return 4;
        return same_after();
    }
    if (!strcmp(how, "owner")) {
        if (fcntl(fd, F_SETOWN, getpid())) return 4;
        return same_after();
    }
    if (!strcmp(how, "user-timeout")) {
        int milliseconds = 1500;
        if (setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds)) return 4;
        return same_after();
    }
    if (!strcmp(how, "shutdown") || !strcmp(how, "cancel")) {
        pthread_t thread;
        void *result = NULL;
        if (pthread_create(&thread, NULL, waits, NULL)) return 4;
        sleep(1);
        if (how[0] == 's') shutdown(fd, SHUT_RDWR);
        else pthread_cancel(thread);
        pthread_join(thread, &result);
        puts(result == PTHREAD_CANCELED ? "cancelled" : "joined");
        return 0;
    }
    if (!strcmp(how, "user")) {
        if (setgid(65534) || setuid(65534)) return 5;
        close(fd);
        fd = socket(to->ai_family, SOCK_STREAM, 0);
        return same_after();
    }
    return 2;
}
