/* A program whose addresses of connect(2) lie in a page that never comes (userfaultfd(2)). Says so once somebody has asked for the page,
 * and ends when its input ends. Ends with 77 where there is no userfaultfd for this user. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *page;

/* By the system call itself: the C library's own would look at the address here. */
static void *ask(void *none) {
    syscall(SYS_connect, socket(AF_INET, SOCK_STREAM, 0), page, sizeof(struct sockaddr_in));
    return none;
}

int main(void) {
    struct uffdio_api api = {.api = UFFD_API};
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
    if (fd < 0)
        return 77;
    long length = sysconf(_SC_PAGESIZE);
    page = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(unsigned long)page, length}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (page == MAP_FAILED || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
        abort();
    for (int n = 0; n < 8; n++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, ask, NULL))
            abort();
    }
    struct uffd_msg told;
    if (read(fd, &told, sizeof told) != sizeof told)
        abort();
    puts("waits");
    fflush(stdout);
    getchar();
    _exit(0);
}
