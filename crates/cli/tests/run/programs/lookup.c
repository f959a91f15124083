/* Prints the addresses that getaddrinfo gives for each name, sorted, or the number of its error; and what res_query says of
   its A records. */
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int order(const void *a, const void *b) {
    return strcmp(a, b);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
        char found[16][64];
        size_t n = 0;
        int error = getaddrinfo(argv[i], "80", &hints, &list);
        printf("%s %d", argv[i], error);
        for (struct addrinfo *a = list; a && n < 16; a = a->ai_next)
            getnameinfo(a->ai_addr, a->ai_addrlen, found[n++], sizeof found[0], NULL, 0, NI_NUMERICHOST);
        qsort(found, n, sizeof found[0], order);
        for (size_t k = 0; k < n; k++)
            printf(" %s", found[k]);
        if (list)
            freeaddrinfo(list);
        unsigned char answer[1500];
        int length = getenv("QUERY") ? res_query(argv[i], 1, 1, answer, sizeof answer) : 0;
        printf(" %d\n", length);
    }
    return 0;
}
