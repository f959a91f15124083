/* Looks up a name, connects, and says that it did: the smallest program that a static link or a set-user-ID bit can be
 * tried on. */
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *a;
    if (getaddrinfo("198.19.0.2", "80", &hints, &a) != 0) return 1;
    int fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
    printf("connect: %d\n", connect(fd, a->ai_addr, a->ai_addrlen));
    return 7;
}
