/* A listener and a session in one process: sends ten messages, has them sent back, and says how many came. */
#include <pthread.h>
#include <stdio.h>

#include "headstart_realtime.h"

static void *serve(void *listener) {
    hs_session *session = hs_listener_accept(listener);
    uint8_t bytes[64], lane;
    ssize_t len;
    int left = 10;
    while (session && left > 0 && (len = hs_session_receive(session, bytes, sizeof bytes, &lane, NULL, 30000)) >= 0) {
        hs_session_send(session, lane, HS_EVENT, 0, bytes, (size_t)len);
        left--;
    }
    hs_session_close(session);
    return NULL;
}

int main(void) {
    hs_listener *listener = hs_listener_bind("127.0.0.1:0");
    if (!listener) return 1;
    pthread_t server;
    if (pthread_create(&server, NULL, serve, listener)) return 1;
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", hs_listener_port(listener));
    hs_session *session = hs_session_connect(address, "auto", 30000);
    if (!session) return 1;
    for (int i = 0; i < 10; i++) {
        uint8_t bytes[50] = {(uint8_t)i};
        if (hs_session_send(session, 0, HS_EVENT, 0, bytes, sizeof bytes) != 0) return 1;
    }
    unsigned came = 0, sum = 0;
    uint8_t bytes[64];
    while (came < 10 && hs_session_receive(session, bytes, sizeof bytes, NULL, NULL, 30000) == 50) {
        came++;
        sum += bytes[0];
    }
    pthread_join(server, NULL);
    hs_session_close(session);
    hs_listener_close(listener);
    printf("%u messages, sum %u\n", came, sum);
    return came == 10 && sum == 45 ? 0 : 1;
}
