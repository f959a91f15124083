/* getaddrinfo with all kinds of names, services and hints: prints codes and nodes, every field of them. The tests run it with
 * and without headstart and compare. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

#define V4 "v4.lab.example"
#define V6 "v6.lab.example"

static void one(const char *node, const char *service, const struct addrinfo *hints) {
    struct addrinfo *list = 0;
    char text[INET6_ADDRSTRLEN];
    int code = getaddrinfo(node, service, hints, &list);
    printf("%s %s family %d type %d protocol %d flags %x: %d", node ? node : "-", service ? service : "-",
           hints ? hints->ai_family : -1, hints ? hints->ai_socktype : -1, hints ? hints->ai_protocol : -1,
           hints ? hints->ai_flags : 0, code);
    if (code == 0) {
        for (struct addrinfo *a = list; a; a = a->ai_next) {
            void *addr = a->ai_family == AF_INET ? (void *)&((struct sockaddr_in *)a->ai_addr)->sin_addr
                                                 : (void *)&((struct sockaddr_in6 *)a->ai_addr)->sin6_addr;
            printf(" [%d %d %d %x %u %s %d %s]", a->ai_family, a->ai_socktype, a->ai_protocol, a->ai_flags,
                   a->ai_addrlen, inet_ntop(a->ai_family, addr, text, sizeof text),
                   ntohs(((struct sockaddr_in *)a->ai_addr)->sin_port), a->ai_canonname ? a->ai_canonname : "-");
        }
        freeaddrinfo(list);
    }
    printf("\n");
}

int main(void) {
    static const char *nodes[] = {V4,
                                  V6,
                                  "V4.LAB.Example",
                                  "v4.lab.example.",
                                  "198.19.0.2",
                                  "2001:db8:3::1",
                                  "127.1",
                                  "nowhere.lab.example",
                                  "nowhere",
                                  "localhost",
                                  "a..b",
                                  ".",
                                  "",
                                  " ",
                                  "with space.example",
                                  "under_score.lab.example",
                                  "-dash.example",
                                  "b\xc3\xbc" "cher.example",
                                  "sixty-four-characters-in-one-label-are-one-more-than-dns-can-car"
                                  "ry.example",
                                  0};
    static const char *services[] = {"80", "http", "nosuchservice", "65536", "0", "", 0};
    static const int families[] = {AF_UNSPEC, AF_INET, AF_INET6, AF_UNIX, 77};
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, 0, SOCK_RAW, 99};
    static const int flags[] = {AI_CANONNAME, AI_NUMERICHOST, AI_NUMERICSERV,           AI_ADDRCONFIG,
                                AI_PASSIVE,   AI_V4MAPPED,    AI_V4MAPPED | AI_ADDRCONFIG, 0x40000000};
    size_t count = sizeof nodes / sizeof *nodes;
    for (size_t i = 0; i < count; i++) {
        one(nodes[i], "80", 0);
        for (size_t f = 0; f < sizeof families / sizeof *families; f++)
            one(nodes[i], "80", &(struct addrinfo){.ai_family = families[f], .ai_socktype = SOCK_STREAM});
    }
    for (size_t i = 0; i < 2; i++) {
        for (size_t s = 0; s < sizeof services / sizeof *services; s++) {
            one(nodes[i], services[s], 0);
            one(nodes[i], services[s], &(struct addrinfo){.ai_socktype = SOCK_STREAM});
        }
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            one(nodes[i], "80", &(struct addrinfo){.ai_socktype = types[t]});
        for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
            for (int family = 0; family < 3; family++)
                one(nodes[i], "80",
                    &(struct addrinfo){.ai_family = families[family], .ai_socktype = SOCK_STREAM, .ai_flags = flags[f]});
        one(nodes[i], "80", &(struct addrinfo){.ai_protocol = IPPROTO_TCP});
        one(nodes[i], "80", &(struct addrinfo){.ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_UDP});
    }
    one(0, 0, 0);
    one(0, "80", &(struct addrinfo){.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE});
}
