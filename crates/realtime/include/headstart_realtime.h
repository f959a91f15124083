/* Small messages over TCP that do not wait behind a lost segment. Calls wait; sessions may be shared by threads. */
#ifndef HEADSTART_REALTIME_H
#define HEADSTART_REALTIME_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hs_session hs_session;
typedef struct hs_listener hs_listener;

/* Kinds of lanes: the newest value of each key; each message once; each message once and in order. */
enum { HS_LATEST = 1, HS_EVENT = 2, HS_ORDERED = 3 };

/* Connects to "host:port". technique: a name (NULL: the default); interval_us: time between messages (0: unknown).
   NULL if that failed. */
hs_session *hs_session_connect(const char *address, const char *technique, uint32_t interval_us);

/* Listens on "host:port" (port 0: any). NULL if that failed. */
hs_listener *hs_listener_bind(const char *address);
uint16_t hs_listener_port(const hs_listener *listener);
/* Waits for the next session. */
hs_session *hs_listener_accept(const hs_listener *listener);
void hs_listener_close(hs_listener *listener);

/* Sends a message on a lane (0 to 63). 0: taken, 1: taken in place of an older value, -1: not taken. */
int hs_session_send(const hs_session *session, uint8_t lane, uint8_t kind, uint64_t key, const uint8_t *bytes, size_t len);

/* Waits up to timeout_ms for a message. Its length, which may be more than capacity (then it was cut); -1 if none came.
   lane and key may be NULL. */
ssize_t hs_session_receive(const hs_session *session, uint8_t *buffer, size_t capacity, uint8_t *lane, uint64_t *key,
                           uint32_t timeout_ms);

/* Waits until the peer has everything, for two seconds at most, and ends the session. 0 if it has, -1 if not. */
int hs_session_close(hs_session *session);

#ifdef __cplusplus
}
#endif

#endif
