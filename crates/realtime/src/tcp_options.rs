//! Socket options of TCP that help small messages, set where the kernel has them.
//!
//! TCP_NODELAY everywhere; TCP_NOTSENT_LOWAT, so that what cannot leave yet waits where it can still be replaced; linear
//! timeouts for thin streams; where the interval of messages is known, TCP_RTO_MIN_US, so that what waits for a timeout waits
//! less than the 200 ms that are for bulk. A kernel that refuses one is as before. None is needed, and none is privileged.

use headstart_io::sys::socket_option::{Value, get, set};
use headstart_io::sys::tcp_info::tcp_info;
use std::os::fd::AsFd;
use std::time::Duration;

/// IPPROTO_TCP, and numbers of linux/tcp.h.
const TCP: i32 = 6;
const TCP_NODELAY: i32 = 1;
const TCP_THIN_LINEAR_TIMEOUTS: i32 = 16;
const TCP_NOTSENT_LOWAT: i32 = 25;
/// Linux 6.15 and later.
const TCP_RTO_MIN_US: i32 = 45;
const TCP_DELACK_MAX_US: i32 = 46;
/// Bytes that may wait in the kernel unsent: about as many small messages as leave in a burst. Ours.
const UNSENT: i32 = 512;

/// What the least retransmission timeout is held between. Linux's own, and a tenth of it: below the time between messages a
/// timeout comes before the next message could have shown the loss, and costs the window. Ours.
const LONGEST_TIMEOUT: Duration = Duration::from_millis(200);
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(20);
/// What an acknowledgement may take beyond interval and round trip. Ours.
const SLACK: Duration = Duration::from_millis(10);

/// Which options a kernel took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// TCP_NODELAY: a message leaves at once.
    pub no_delay: bool,
    /// TCP_NOTSENT_LOWAT: what cannot leave waits where a newer value can replace it.
    pub unsent_low_water: bool,
    /// TCP_THIN_LINEAR_TIMEOUTS: timeouts of a thin stream do not double.
    pub linear_timeouts: bool,
    /// TCP_RTO_MIN_US (Linux 6.15): the least retransmission timeout, where it was set.
    pub least_timeout: Option<Duration>,
    /// Whether the kernel has TCP_DELACK_MAX_US (Linux 6.15). Left as it is: our acknowledgements take TCP's along, and one
    /// that is sent sooner is a packet more.
    pub has_ack_delay: bool,
}

/// SOL_SOCKET and SO_KEEPALIVE; the rest are of TCP.
const SOCKET: i32 = 1;
const SO_KEEPALIVE: i32 = 9;
const TCP_KEEPIDLE: i32 = 4;
const TCP_KEEPINTVL: i32 = 5;
const TCP_KEEPCNT: i32 = 6;
const TCP_USER_TIMEOUT: i32 = 18;
/// A peer that is silent for so many seconds is asked whether it is there, then so often … Ours.
const ASK_AFTER: i32 = 15;
const ASK_EVERY: i32 = 5;
/// … and given up after this many milliseconds, as is one that acknowledges nothing: sooner than it gives up this side
/// (`driver`'s 30 s), so that a session goes on over a new connection. Ours.
const GIVE_UP: i32 = 20_000;

/// A program's peer is asked after so many seconds of silence, then so often, so many times, before it is given up: two minutes,
/// for nothing takes the place of such a connection. Ours.
const ASK_PROGRAM_AFTER: i32 = 60;
const ASK_PROGRAM_EVERY: i32 = 10;
const ASK_PROGRAM: i32 = 6;

/// Has the kernel end a connection by a reset when it is closed, by the death of this process too, or in order again. A program that
/// gets a reset does not take half of an answer for the whole.
pub(crate) fn break_off(socket: impl AsFd, yes: bool) {
    // SO_LINGER is as old as sockets; where it is refused, an end is all that can be said.
    let _ = rustix::net::sockopt::set_socket_linger(socket, yes.then_some(Duration::ZERO));
}

/// Has the kernel find out when the peer of a session's connection is gone without a word: a cut wire, a forgotten mapping.
pub(crate) fn watch(socket: impl AsFd) {
    let set = |option, value| set(socket.as_fd(), option, &Value::of_int(value));
    set((SOCKET, SO_KEEPALIVE), 1);
    set((TCP, TCP_KEEPIDLE), ASK_AFTER);
    set((TCP, TCP_KEEPINTVL), ASK_EVERY);
    set((TCP, TCP_KEEPCNT), 1);
    set((TCP, TCP_USER_TIMEOUT), GIVE_UP);
}

/// The same for a connection of a program, which is not made anew: only a peer that does not answer at all is given up. There
/// is no TCP_USER_TIMEOUT here, by which Linux also breaks off connections whose peer answers and takes nothing: a program that
/// is stopped may go on tomorrow.
pub(crate) fn attend(socket: impl AsFd) {
    let set = |option, value| set(socket.as_fd(), option, &Value::of_int(value));
    set((SOCKET, SO_KEEPALIVE), 1);
    set((TCP, TCP_KEEPIDLE), ASK_PROGRAM_AFTER);
    set((TCP, TCP_KEEPINTVL), ASK_PROGRAM_EVERY);
    set((TCP, TCP_KEEPCNT), ASK_PROGRAM);
}

/// Sets them on a connected socket of TCP, for messages that follow each other so fast.
pub(crate) fn turn(socket: impl AsFd, interval: Option<Duration>) -> TcpOptions {
    let socket = socket.as_fd();
    let set = |option, value| set(socket, (TCP, option), &Value::of_int(value));
    let timeout = interval.zip(tcp_info(socket).ok()).map(|(interval, info)| least_timeout(interval, info.rtt));
    let least_timeout =
        timeout.filter(|timeout| i32::try_from(timeout.as_micros()).is_ok_and(|micros| set(TCP_RTO_MIN_US, micros)));
    TcpOptions {
        no_delay: set(TCP_NODELAY, 1),
        unsent_low_water: set(TCP_NOTSENT_LOWAT, UNSENT),
        linear_timeouts: set(TCP_THIN_LINEAR_TIMEOUTS, 1),
        least_timeout,
        has_ack_delay: get(socket, (TCP, TCP_DELACK_MAX_US)).is_some(),
    }
}

/// Two intervals, or one and a round trip: by then the next message could have shown what was lost.
fn least_timeout(interval: Duration, rtt: Duration) -> Duration {
    (interval * 2).max(interval + rtt + SLACK).clamp(SHORTEST_TIMEOUT, LONGEST_TIMEOUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_tcp_takes_the_one_that_every_kernel_has_and_another_socket_none() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(turn(&stream, None).no_delay && stream.nodelay().unwrap());
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let none = turn(&datagrams, Some(Duration::from_millis(30)));
        assert!(!none.no_delay && none.least_timeout.is_none() && !none.has_ack_delay);
    }

    #[test]
    fn a_kernel_that_has_the_least_timeout_has_it_as_it_was_set() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(turn(&stream, None).least_timeout, None);
        let tcp_options = turn(&stream, Some(Duration::from_millis(30)));
        let read = get(&stream, (TCP, TCP_RTO_MIN_US)).and_then(|value| value.int());
        // Older kernels have neither; the kernel keeps ticks.
        assert_eq!(tcp_options.least_timeout.is_some(), read.is_some());
        assert!(read.is_none_or(|micros| (40_000..=200_000).contains(&micros)), "{read:?}");
    }

    #[test]
    fn a_session_s_peer_is_given_up_sooner_than_a_program_s_and_a_program_may_be_slow() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let [ours, program] = [(); 2].map(|()| std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        watch(&ours);
        attend(&program);
        let of = |socket, option| get(socket, option).and_then(|value| value.int());
        for socket in [&ours, &program] {
            assert_eq!(of(socket, (SOCKET, SO_KEEPALIVE)), Some(1));
        }
        assert_eq!(of(&ours, (TCP, TCP_USER_TIMEOUT)), Some(GIVE_UP));
        assert_eq!(of(&program, (TCP, TCP_USER_TIMEOUT)), Some(0));
        let silence = |socket| {
            let [after, every, times] =
                [TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT].map(|o| of(socket, (TCP, o)).unwrap());
            after + every * times
        };
        assert_eq!((silence(&ours), silence(&program)), (20, 120));
    }

    #[test]
    fn a_timeout_leaves_the_next_message_time_to_show_a_loss() {
        let ms = Duration::from_millis;
        for (interval, rtt, timeout) in [(30, 10, 60), (30, 100, 140), (1, 1, 20), (500, 10, 200)] {
            assert_eq!(least_timeout(ms(interval), ms(rtt)), ms(timeout), "{interval} {rtt}");
        }
    }
}
