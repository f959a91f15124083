/* A listener and a session in one process: sends ten messages, has them sent back, and says how many came. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "headstart_realtime.h"

static void *serve(void *listener) {
    int error;
    hs_session *session = hs_listener_accept_within(listener, 30000, &error);
    uint8_t bytes[64], lane;
    ptrdiff_t len;
    if (!session) fprintf(stderr, "no session: %s\n", hs_error_text(error));
    /* Until the other side leaves. */
    while (session && (len = hs_session_receive(session, bytes, sizeof bytes, &lane, NULL, 30000)) >= 0)
        hs_session_send(session, lane, HS_EVENT, 0, bytes, (size_t)len);
    hs_session_close(session);
    /* One more, over a socket of the program's own. */
    session = hs_listener_accept_within(listener, 30000, &error);
    while (session && hs_session_receive(session, bytes, sizeof bytes, &lane, NULL, 30000) == 1) continue;
    hs_session_close(session);
    /* No session comes any more: this returns when the listener is stopped. */
    return hs_listener_accept(listener);
}

/* A connected socket: TLS, say, would be behind one end of a socketpair. */
static int dial(void *port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(*(unsigned *)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int own = socket(AF_INET, SOCK_STREAM, 0);
    if (own >= 0 && connect(own, (struct sockaddr *)&to, sizeof to) == 0) return own;
    if (own >= 0) close(own);
    return -1;
}

int main(void) {
    int error;
    hs_session *none = hs_session_connect_within("127.0.0.1:1", NULL, 0, 5000, &error);
    if (none || error != HS_CONNECT) return 1;
    hs_listener *listener = hs_listener_bind("127.0.0.1:0");
    if (!listener || hs_listener_set_patience(listener, 60000) != HS_OK) return 1;
    pthread_t server;
    if (pthread_create(&server, NULL, serve, listener)) return 1;
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", hs_listener_port(listener));
    hs_session *session = hs_session_connect_within(address, "auto", 30000, 30000, &error);
    if (!session) {
        fprintf(stderr, "%s: %s\n", address, hs_error_text(error));
        return 1;
    }
    /* A minute without an answer ends it, though connecting may take half of one. */
    if (hs_session_set_patience(session, 60000) != HS_OK || hs_session_set_patience(NULL, 1) != HS_INVALID) return 13;
    struct pollfd readable = {.fd = hs_session_descriptor(session), .events = POLLIN};
    if (readable.fd < 0 || poll(&readable, 1, 0) != 0) return 2;
    for (int i = 0; i < 10; i++) {
        uint8_t bytes[50] = {(uint8_t)i};
        if (hs_session_try_send(session, 0, HS_EVENT, 0, bytes, sizeof bytes) != HS_OK) return 3;
    }
    unsigned came = 0, sum = 0;
    uint8_t bytes[64];
    while (came < 10 && poll(&readable, 1, 30000) == 1) {
        if (hs_session_receive(session, bytes, sizeof bytes, NULL, NULL, 0) != 50) return 4;
        came++;
        sum += bytes[0];
    }
    if (poll(&readable, 1, 0) != 0) return 5;
    if (hs_session_receive(session, bytes, sizeof bytes, NULL, NULL, 0) != HS_TIMEOUT) return 6;
    uint64_t unconfirmed = 99;
    if (hs_session_ending(session, &unconfirmed) != HS_OK || unconfirmed > 10) return 7;
    if (hs_session_try_send(session, 64, HS_EVENT, 0, bytes, 1) != HS_INVALID) return 8;
    hs_statistics done = {0};
    if (hs_session_stats(session, &done, sizeof done) != HS_OK || done.sent != 10 || done.received != 10) return 10;
    if (hs_session_close(session) != HS_OK) return 9;
    /* Over a socket of the program's own. */
    unsigned port = hs_listener_port(listener);
    hs_session *own = hs_session_connect_over(dial, &port, "plain", 0, 30000, &error);
    if (!own || hs_session_send(own, 0, HS_ORDERED, 0, bytes, 1) != HS_OK || hs_session_close(own) != HS_OK) return 11;
    if (hs_session_connect_over(NULL, NULL, NULL, 0, 1000, &error) || error != HS_INVALID) return 12;
    hs_listener_stop(listener);
    void *stopped;
    pthread_join(server, &stopped);
    hs_listener_close(listener);
    printf("%u messages, sum %u\n", came, sum);
    return !stopped && came == 10 && sum == 45 ? 0 : 1;
}
