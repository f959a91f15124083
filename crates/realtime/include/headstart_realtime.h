/* Small messages over TCP that do not wait behind a lost segment. Calls wait; sessions may be shared by threads.
   Made from src/ffi.rs by cbindgen: change that, and have tests/header.rs write this. */

#ifndef HEADSTART_REALTIME_H
#define HEADSTART_REALTIME_H

#include <stddef.h>
#include <stdint.h>

/*
 A kind of lane: the newest value of each key.
 */
#define HS_LATEST 1

/*
 A kind of lane: each message once, as soon as it comes.
 */
#define HS_EVENT 2

/*
 A kind of lane: each message once and in order.
 */
#define HS_ORDERED 3

/*
 Accepts sessions. See [`crate::Listener`].
 */
typedef struct hs_listener hs_listener;

/*
 One end of a session. See [`crate::Session`].
 */
typedef struct hs_session hs_session;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Connects to `address` ("host:port") with a technique (null: the default) and an interval in microseconds (0: unknown).
 Null if that failed.
 */
struct hs_session *hs_session_connect(const char *address, const char *technique, uint32_t interval_us);

/*
 Listens on `address` ("host:port", port 0: any). Null if that failed.
 */
struct hs_listener *hs_listener_bind(const char *address);

/*
 The port that it listens on; 0 if `listener` is null.

 # Safety
 `listener` is null or from [`hs_listener_bind`], and not closed.
 */
uint16_t hs_listener_port(const struct hs_listener *listener);

/*
 Waits for the next session. Null if there will be none.

 # Safety
 `listener` is null or from [`hs_listener_bind`], and not closed.
 */
struct hs_session *hs_listener_accept(const struct hs_listener *listener);

/*
 Closes a listener; its sessions stay.

 # Safety
 `listener` is null or from [`hs_listener_bind`], and is not used again.
 */
void hs_listener_close(struct hs_listener *listener);

/*
 Sends `len` bytes on a lane (0 to 63) of a kind (`HS_LATEST`, `HS_EVENT`, `HS_ORDERED`), waiting while too many messages
 are on their way. 0: taken, 1: taken in place of an older value, -1: not taken.

 # Safety
 `session` is null or a session that is not closed; `bytes` points to `len` bytes.
 */
int hs_session_send(const struct hs_session *session,
                    uint8_t lane,
                    uint8_t kind,
                    uint64_t key,
                    const uint8_t *bytes,
                    size_t len);

/*
 Waits up to `timeout_ms` for a message and copies at most `capacity` bytes of it into `buffer`. Its length, which may be
 more than `capacity`; -1 if none came. `lane` and `key` may be null.

 # Safety
 `session` is null or a session that is not closed; `buffer` has room for `capacity` bytes; `lane` and `key` are null or
 may be written.
 */
ptrdiff_t hs_session_receive(const struct hs_session *session,
                             uint8_t *buffer,
                             size_t capacity,
                             uint8_t *lane,
                             uint64_t *key,
                             uint32_t timeout_ms);

/*
 Waits until the peer has everything, for two seconds at most, and ends the session. 0 if it has, -1 if not.

 # Safety
 `session` is null or a session, and is not used again.
 */
int hs_session_close(struct hs_session *session);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HEADSTART_REALTIME_H */
