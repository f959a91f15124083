/* Leaves calls that wait as programs with time limits do, again and again: `jumps CALL WAY`. CALL is lookup or connect; WAY is
   jump (siglongjmp from the handler of an alarm), cancel (pthread_cancel) or inside (the handler connects too, and comes back).
   Prints what is left of it, and whether the next calls work. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define TIMES 5
#define GOOD "www.lab.example"
#define MUTE "mute.lab.example"
#define FAR "far.lab.example"
#define HOLE "hole.lab.example"

static sigjmp_buf before;
static struct addrinfo *hole, *good;
static volatile int inner = -1;

static void leap(int signal) {
    (void)signal;
    siglongjmp(before, 1);
}

static void connect_inside(int signal) {
    (void)signal;
    int before_it = errno, fd = socket(good->ai_family, SOCK_STREAM, 0);
    inner = connect(fd, good->ai_addr, good->ai_addrlen);
    close(fd);
    errno = before_it;
}

static struct addrinfo *look(const char *name) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    return getaddrinfo(name, "80", &hints, &list) == 0 ? list : NULL;
}

static void wait_long(const char *call) {
    if (call[0] == 'l') {
        look(MUTE);
        return;
    }
    int fd = socket(hole->ai_family, SOCK_STREAM, 0);
    connect(fd, hole->ai_addr, hole->ai_addrlen);
}

static void *waits(void *call) {
    wait_long(call);
    pthread_testcancel();
    return NULL;
}

static int descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

/* Sockets of the program's own that connect left behind are its own to close, as is what the C library leaves of a lookup. */
static void close_sockets(const char *call) {
    if (call[0] == 'c')
        for (int fd = 3; fd < 256; fd++) {
            int domain = 0;
            socklen_t len = sizeof domain;
            if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain != AF_UNIX) close(fd);
        }
}

static int works(void) {
    struct addrinfo *list = look(GOOD);
    if (!list) return 0;
    int fd = socket(list->ai_family, SOCK_STREAM, 0);
    int result = connect(fd, list->ai_addr, list->ai_addrlen);
    close(fd);
    freeaddrinfo(list);
    return result == 0;
}

static int may_be_cancelled(void) {
    int state = -1;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    return state == PTHREAD_CANCEL_ENABLE;
}

static long ms_since(struct timespec since) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - since.tv_sec) * 1000 + (now.tv_nsec - since.tv_nsec) / 1000000;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    const char *call = words[1];
    alarm(100);
    if (!works() || !(hole = look(HOLE)) || !(good = look(GOOD))) return 3;
    int open = descriptors();
    if (!strcmp(words[2], "jump")) {
        struct sigaction act = {.sa_handler = leap};
        sigaction(SIGALRM, &act, NULL);
        for (volatile int i = 0; i < TIMES; i++) {
            if (sigsetjmp(before, 1) == 0) {
                struct itimerval soon = {.it_value.tv_usec = 500000};
                setitimer(ITIMER_REAL, &soon, NULL);
                wait_long(call);
                puts("it came back");
            }
        }
        printf("may be cancelled: %d\n", may_be_cancelled());
    } else if (!strcmp(words[2], "inside")) {
        struct sigaction act = {.sa_handler = connect_inside, .sa_flags = SA_RESTART};
        sigaction(SIGALRM, &act, NULL);
        struct addrinfo *far = look(FAR);
        int fd = socket(far->ai_family, SOCK_STREAM, 0);
        struct itimerval soon = {.it_value.tv_usec = 500000};
        setitimer(ITIMER_REAL, &soon, NULL);
        int outer = connect(fd, far->ai_addr, far->ai_addrlen);
        printf("outer: %d, inner: %d\n", outer, inner);
        close(fd);
    } else {
        for (int i = 0; i < TIMES; i++) {
            pthread_t thread;
            void *result = NULL;
            struct timespec since;
            if (pthread_create(&thread, NULL, waits, (void *)call)) return 4;
            usleep(500000);
            clock_gettime(CLOCK_MONOTONIC, &since);
            pthread_cancel(thread);
            pthread_join(thread, &result);
            printf("cancelled: %d, at once: %d\n", result == PTHREAD_CANCELED, ms_since(since) < 5000);
        }
    }
    printf("works: %d\n", works());
    close_sockets(call);
    printf("left open: %d\n", descriptors() - open);
    return 0;
}
