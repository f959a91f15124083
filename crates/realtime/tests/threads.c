/* Threads that share a session and a listener: four send, two receive, one asks what has been done, one accepts until it is stopped.
   Every message comes back once, whatever they do at the same time. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "headstart_realtime.h"

enum { SENDERS = 4, EACH = 50, ALL = SENDERS * EACH };

static hs_listener *listener;
static hs_session *session;
static atomic_uint came, sum, asked;
static atomic_int over;

static void *echo(void *accepted) {
    uint8_t bytes[64], lane;
    ptrdiff_t len;
    while ((len = hs_session_receive(accepted, bytes, sizeof bytes, &lane, NULL, 60000)) >= 0)
        hs_session_send(accepted, lane, HS_EVENT, 0, bytes, (size_t)len);
    hs_session_close(accepted);
    return NULL;
}

/* Returns the first session's thread when the listener has been stopped. */
static void *accept_all(void *first) {
    int error = HS_OK;
    hs_session *accepted;
    unsigned sessions = 0;
    while ((accepted = hs_listener_accept_within(listener, 60000, &error)))
        if (sessions++ || pthread_create(first, NULL, echo, accepted)) return NULL;
    return error == HS_CLOSED && sessions == 1 ? first : NULL;
}

static void *send_some(void *number) {
    uint8_t bytes[8] = {0};
    bytes[0] = (uint8_t)(size_t)number;
    for (unsigned sent = 0; sent < EACH;) {
        int code = sent % 2 ? hs_session_try_send(session, bytes[0], HS_EVENT, 0, bytes, sizeof bytes)
                            : hs_session_send_within(session, bytes[0], HS_EVENT, 0, bytes, sizeof bytes, 60000);
        if (code == HS_OK) sent++;
        else if (code != HS_FULL) return NULL;
    }
    return number;
}

static void *receive_some(void *none) {
    uint8_t bytes[64], lane;
    while (atomic_load(&came) < ALL) {
        ptrdiff_t len = hs_session_receive(session, bytes, sizeof bytes, &lane, NULL, 100);
        if (len == 8 && bytes[0] == lane) {
            atomic_fetch_add(&came, 1);
            atomic_fetch_add(&sum, bytes[0]);
        } else if (len != HS_TIMEOUT) break;
    }
    return none;
}

static void *ask(void *none) {
    hs_statistics done;
    uint64_t unconfirmed;
    while (!atomic_load(&over)) {
        if (hs_session_stats(session, &done, sizeof done) != HS_OK || done.sent > ALL) return NULL;
        if (hs_session_ending(session, &unconfirmed) != HS_OK || hs_session_descriptor(session) < 0) return NULL;
        atomic_fetch_add(&asked, 1);
        if (!hs_listener_port(listener)) return NULL;
    }
    return none;
}

int main(void) {
    pthread_t accepting, echoing, senders[SENDERS], receivers[2], asking;
    void *ended;
    int error;
    if (!(listener = hs_listener_bind("127.0.0.1:0"))) return 1;
    if (pthread_create(&accepting, NULL, accept_all, &echoing)) return 1;
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", hs_listener_port(listener));
    if (!(session = hs_session_connect_within(address, "auto", 30000, 60000, &error))) return 2;
    for (size_t n = 0; n < SENDERS; n++)
        if (pthread_create(&senders[n], NULL, send_some, (void *)(n + 1))) return 1;
    for (size_t n = 0; n < 2; n++)
        if (pthread_create(&receivers[n], NULL, receive_some, &came)) return 1;
    if (pthread_create(&asking, NULL, ask, &asked)) return 1;
    for (size_t n = 0; n < SENDERS; n++)
        if (pthread_join(senders[n], &ended) || !ended) return 3;
    for (size_t n = 0; n < 2; n++)
        if (pthread_join(receivers[n], &ended)) return 4;
    atomic_store(&over, 1);
    if (pthread_join(asking, &ended) || !ended) return 5;
    /* A thread is in accept: it comes back. */
    hs_listener_stop(listener);
    if (pthread_join(accepting, &ended) || ended != &echoing) return 6;
    if (hs_session_close(session) != HS_OK || pthread_join(echoing, NULL)) return 7;
    hs_listener_close(listener);
    printf("%u messages, sum %u\n", came, sum);
    return atomic_load(&asked) == 0;
}
