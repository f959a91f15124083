//! What the kernel remembers of past TCP connections to a peer: the generic netlink family `tcp_metrics` (tcp_metrics(8) of
//! iproute2, linux/tcp_metrics.h), read from the bytes of its answers.

use super::netlink::{Attribute, Malformed, attributes};
use crate::time::Duration;
use std::net::IpAddr;

/// The name of the family.
pub const FAMILY: &str = "tcp_metrics";
/// TCP_METRICS_CMD_GET.
pub const GET: u8 = 1;
/// TCP_METRICS_GENL_VERSION.
pub const VERSION: u8 = 1;
/// CTRL_CMD_GETFAMILY of the family that knows the others (genetlink.h).
pub const GET_FAMILY: u8 = 3;
/// CTRL_ATTR_FAMILY_ID.
const FAMILY_ID: u16 = 1;
/// CTRL_ATTR_FAMILY_NAME.
pub const FAMILY_NAME: u16 = 2;
/// TCP_METRICS_ATTR_ADDR_IPV4 and _IPV6.
const PEER: [u16; 2] = [1, 2];
/// TCP_METRICS_ATTR_AGE: milliseconds since the last connection.
const AGE: u16 = 3;
/// TCP_METRICS_ATTR_VALS, a nest of the metrics, each at its number and one.
const VALUES: u16 = 6;
/// TCP_METRIC_CWND.
const CWND: u16 = 3 + 1;
/// TCP_METRIC_RTT_US: the smoothed round trip, in eighths of a microsecond.
const RTT: u16 = 5 + 1;
/// TCP_METRICS_ATTR_SADDR_IPV4 and _IPV6.
const SOURCE: [u16; 2] = [11, 12];
/// Length of `struct genlmsghdr`.
const HEADER: usize = 4;

/// What is remembered of one peer, from one source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The peer.
    pub peer: IpAddr,
    /// The address of ours that the connection came from, where the kernel tells.
    pub source: Option<IpAddr>,
    /// How long ago a connection to it ended.
    pub age: Duration,
    /// The congestion window that was reached, in segments. Absent if no connection was long enough to tell.
    pub window: Option<u32>,
    /// The smoothed round trip.
    pub rtt: Option<Duration>,
}

impl Remembered {
    /// Reads the payload of one message; none if it is about no peer.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let all = attributes(bytes.get(HEADER..).unwrap_or_default())?;
        let find = |kind| all.iter().find(|attribute: &&Attribute| attribute.kind() == kind);
        let Some(peer) = PEER.into_iter().find_map(find).and_then(Attribute::as_ip) else { return Ok(None) };
        let values = find(VALUES).map(|nest| attributes(&nest.value)).transpose()?.unwrap_or_default();
        let value = |kind| values.iter().find(|value| value.kind() == kind).and_then(Attribute::as_u32);
        let window = value(CWND).filter(|window| *window > 0);
        let rtt = value(RTT).filter(|rtt| *rtt > 0).map(|eighths| Duration::from_micros(u64::from(eighths / 8)));
        let age = find(AGE).and_then(Attribute::as_u64).map_or(Duration::ZERO, Duration::from_millis);
        let source = SOURCE.into_iter().find_map(find).and_then(Attribute::as_ip).map(|ip| ip.to_canonical());
        Ok(Some(Self { peer: peer.to_canonical(), source, age, window, rtt }))
    }
}

/// Reads the number of a family out of the answer to a question for its name.
pub fn family_id(bytes: &[u8]) -> Result<Option<u16>, Malformed> {
    let all = attributes(bytes.get(HEADER..).unwrap_or_default())?;
    let id = all.iter().find(|attribute| attribute.kind() == FAMILY_ID);
    Ok(id.and_then(|id| Some(u16::from_ne_bytes(id.value.as_slice().try_into().ok()?))))
}

#[cfg(test)]
mod tests {
    use super::super::netlink::encode;
    use super::*;
    use proptest::prelude::*;

    fn message(attributes: &[Attribute]) -> Vec<u8> {
        [vec![GET, VERSION, 0, 0], encode(attributes)].concat()
    }

    #[test]
    fn a_peer_its_age_and_its_window_are_read() {
        let values = encode(&[Attribute::u32(RTT, 240_000), Attribute::u32(CWND, 48)]);
        let all = [
            Attribute::new(1, [203, 0, 113, 7]),
            Attribute::new(AGE, 2500u64.to_ne_bytes()),
            Attribute { raw_kind: 0x8000 | VALUES, value: values },
        ];
        let read = Remembered::decode(&message(&all)).unwrap().unwrap();
        let expected = Remembered {
            peer: [203, 0, 113, 7].into(),
            source: None,
            age: Duration::from_millis(2500),
            window: Some(48),
            rtt: Some(Duration::from_millis(30)),
        };
        assert_eq!(read, expected);
        let with_source = [&all[..], &[Attribute::new(SOURCE[0], [192, 0, 2, 1])]].concat();
        let read = Remembered::decode(&message(&with_source)).unwrap().unwrap();
        assert_eq!(read, Remembered { source: Some([192, 0, 2, 1].into()), ..expected });
        let short = Remembered::decode(&message(&all[..2])).unwrap().unwrap();
        assert_eq!(short.window, None);
        assert_eq!(Remembered::decode(&message(&[])), Ok(None));
        let zeros = encode(&[Attribute::u32(RTT, 0), Attribute::u32(CWND, 0)]);
        let unknown = [all[0].clone(), Attribute::new(VALUES, zeros)];
        let read = Remembered::decode(&message(&unknown)).unwrap().unwrap();
        assert_eq!((read.window, read.rtt), (None, None), "what is zero is not known");
    }

    #[test]
    fn a_family_is_known_by_its_number() {
        let answer = message(&[Attribute::new(FAMILY_ID, 29u16.to_ne_bytes())]);
        assert_eq!((family_id(&answer), family_id(&message(&[]))), (Ok(Some(29)), Ok(None)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = (Remembered::decode(&bytes), family_id(&bytes));
        }
    }
}
