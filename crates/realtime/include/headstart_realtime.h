/* Small messages over TCP that do not wait behind a lost segment. Calls wait. Any function may be called by several threads at
   once on the same session or listener, but what closes it: no other call on it may be under way then, or follow.
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
 It worked.
 */
#define HS_OK 0

/*
 An argument is null, or of no use.
 */
#define HS_INVALID -1

/*
 The time for it is up.
 */
#define HS_TIMEOUT -2

/*
 The lane has as many messages on their way as it may.
 */
#define HS_FULL -3

/*
 This side has closed the session, or stopped the listener.
 */
#define HS_CLOSED -4

/*
 The peer has closed the session.
 */
#define HS_LEFT -5

/*
 The peer does not know the session any more: it was restarted, or has given it up.
 */
#define HS_GONE -6

/*
 The peer has not answered for as long as that may be.
 */
#define HS_LOST -7

/*
 The peer never answered.
 */
#define HS_SILENT -8

/*
 The peer does not speak this protocol, or another version of it.
 */
#define HS_STRANGER -9

/*
 No connection to the peer, or no address to listen on.
 */
#define HS_CONNECT -10

/*
 No technique of that name.
 */
#define HS_TECHNIQUE -11

/*
 The message is longer than 16 KiB.
 */
#define HS_TOO_LONG -12

/*
 Not everything that was sent is known to have arrived.
 */
#define HS_UNCONFIRMED -13

/*
 Accepts sessions. See [`crate::Listener`].
 */
typedef struct hs_listener hs_listener;

/*
 One end of a session. See [`crate::Session`].
 */
typedef struct hs_session hs_session;

/*
 What a session has done so far. Later versions may add fields at the end.
 */
typedef struct hs_statistics {
  /*
   Messages handed in.
   */
  uint64_t sent;
  /*
   Messages handed to the program.
   */
  uint64_t received;
  /*
   Frames of messages written, copies included.
   */
  uint64_t written;
  /*
   Of those, copies.
   */
  uint64_t copies;
  /*
   Messages that were dropped for newer values.
   */
  uint64_t conflated;
  /*
   Times that a connection was left because a message on it was overdue.
   */
  uint64_t stalls;
  /*
   Messages that the peer has not confirmed.
   */
  uint64_t unconfirmed;
  /*
   Smoothed round-trip time in microseconds; 0: not known.
   */
  uint64_t smoothed_us;
} hs_statistics;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 What a code says, in English; of any other number, that it is unknown. The text is never freed.
 */
const char *hs_error_text(int code);

/*
 Connects to `address` ("host:port") with a technique (null: the default) and an interval in microseconds (0: unknown), and waits
 until the peer has shown that it speaks this protocol, up to `timeout_ms`. The same time is the session's patience, unless
 `hs_session_set_patience` changes it. Null if that failed; `error`, if it is not null, says why.

 # Safety
 `address` and `technique` are null or strings that end with a zero; `error` is null or may be written.
 */
struct hs_session *hs_session_connect_within(const char *address,
                                             const char *technique,
                                             uint32_t interval_us,
                                             uint32_t timeout_ms,
                                             int *error);

/*
 The session is over (`HS_LOST`) when the peer has not answered for so long, and to what was sent for at least three seconds.
 `HS_OK`, or `HS_INVALID` if `session` is null.

 # Safety
 `session` is null or a session that is not closed.
 */
int hs_session_set_patience(const struct hs_session *session,
                            uint32_t patience_ms);

/*
 As `hs_session_connect_within`, with 30 seconds.

 # Safety
 `address` and `technique` are null or strings that end with a zero.
 */
struct hs_session *hs_session_connect(const char *address, const char *technique, uint32_t interval_us);

/*
 As `hs_session_connect_within`, over sockets of the program's own: one end of a socketpair, say, behind whose other end the program
 does TLS. `dial` is given `context`, and answers with a connected stream socket (TCP or Unix), which is the library's from then on,
 or a negative number: no connection now. It is called by threads of the library, one at a time, whenever a connection is wanted. None
 begins after this function has failed or `hs_session_close` has come back, but neither waits for one that is under way longer than it
 may: `context` must last until that has returned, and what it answers then is closed.

 # Safety
 `dial` may be called so with `context` from any thread; what it answers is a descriptor that is used by no other; `technique` is
 null or a string that ends with a zero; `error` is null or may be written.
 */
struct hs_session *hs_session_connect_over(int (*dial)(void *context),
                                           void *context,
                                           const char *technique,
                                           uint32_t interval_us,
                                           uint32_t timeout_ms,
                                           int *error);

/*
 Writes what the session has done so far, up to `size` bytes of it: `sizeof` of the structure that the program knows. `HS_OK`, or
 `HS_INVALID` if a pointer is null.

 # Safety
 `session` is null or a session that is not closed; `into` is null or has room for `size` bytes.
 */
int hs_session_stats(const struct hs_session *session,
                     struct hs_statistics *into,
                     size_t size);

/*
 Listens on `address` ("host:port", port 0: any). Null if that failed.

 # Safety
 `address` is null or a string that ends with a zero.
 */
struct hs_listener *hs_listener_bind(const char *address);

/*
 The port that it listens on; 0 if `listener` is null.

 # Safety
 `listener` is null or from [`hs_listener_bind`], and not closed.
 */
uint16_t hs_listener_port(const struct hs_listener *listener);

/*
 The patience of sessions that begin from now on, as `hs_session_set_patience` has it; 30 seconds unless told. `HS_OK`, or
 `HS_INVALID` if `listener` is null.

 # Safety
 `listener` is null or from [`hs_listener_bind`], and not closed.
 */
int hs_listener_set_patience(const struct hs_listener *listener,
                             uint32_t patience_ms);

/*
 Waits for the next session. Null if there will be none: the listener was stopped.

 # Safety
 `listener` is null or from [`hs_listener_bind`], and not closed.
 */
struct hs_session *hs_listener_accept(const struct hs_listener *listener);

/*
 Waits up to `timeout_ms` for the next session. Null if none came; `error`, if it is not null, says why (`HS_TIMEOUT`, or
 `HS_CLOSED` where the listener was stopped).

 # Safety
 `listener` is null or from [`hs_listener_bind`], and not closed; `error` is null or may be written.
 */
struct hs_session *hs_listener_accept_within(const struct hs_listener *listener,
                                             uint32_t timeout_ms,
                                             int *error);

/*
 Accepts no more sessions: a thread that waits in `hs_listener_accept` comes back. Sessions stay, and the listener is still to be
 closed, once no thread uses it.

 # Safety
 `listener` is null or from [`hs_listener_bind`], and not closed.
 */
void hs_listener_stop(const struct hs_listener *listener);

/*
 Closes a listener; its sessions stay.

 # Safety
 `listener` is null or from [`hs_listener_bind`], and is not used again.
 */
void hs_listener_close(struct hs_listener *listener);

/*
 Sends `len` bytes on a lane (0 to 63) of a kind (`HS_LATEST`, `HS_EVENT`, `HS_ORDERED`), waiting while too many messages
 are on their way, as long as the session's patience is. 0: taken, 1: taken in place of an older value, negative: not taken, and
 why.

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
 As `hs_session_send`, waiting up to `timeout_ms`: with 0, not at all, and `HS_FULL` is the answer then.

 # Safety
 `session` is null or a session that is not closed; `bytes` points to `len` bytes.
 */
int hs_session_send_within(const struct hs_session *session,
                           uint8_t lane,
                           uint8_t kind,
                           uint64_t key,
                           const uint8_t *bytes,
                           size_t len,
                           uint32_t timeout_ms);

/*
 As `hs_session_send`, without waiting: `HS_FULL` if too many messages are on their way.

 # Safety
 `session` is null or a session that is not closed; `bytes` points to `len` bytes.
 */
int hs_session_try_send(const struct hs_session *session,
                        uint8_t lane,
                        uint8_t kind,
                        uint64_t key,
                        const uint8_t *bytes,
                        size_t len);

/*
 Why the session is over for sending: 0 while it goes on. `unconfirmed`, if it is not null, gets the number of messages that were
 taken and that the peer has not confirmed so far.

 # Safety
 `session` is null or a session that is not closed; `unconfirmed` is null or may be written.
 */
int hs_session_ending(const struct hs_session *session,
                      uint64_t *unconfirmed);

/*
 A descriptor for poll() and its like: readable while there is something to receive, or the session is over. It belongs to the
 session: it is not to be read, written or closed. Negative if there is none.

 # Safety
 `session` is null or a session that is not closed.
 */
int hs_session_descriptor(const struct hs_session *session);

/*
 Waits up to `timeout_ms` for a message and copies at most `capacity` bytes of it into `buffer`. Its length, which may be
 more than `capacity`; `HS_TIMEOUT` if none came, and another negative code if none will: the session is over. With a timeout of 0 it
 takes what is there. `lane` and `key` may be null.

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
 Waits until the peer has everything, for two seconds at most, and ends the session. 0 if it has confirmed everything (it is in
 the hands of its program, or kept for it) and answers still, or has left after it took it; `HS_UNCONFIRMED` if not, or if it died, for what
 it had confirmed may have died with it. `hs_session_ending` says before how much is unconfirmed.

 # Safety
 `session` is null or a session, and is not used again.
 */
int hs_session_close(struct hs_session *session);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HEADSTART_REALTIME_H */
