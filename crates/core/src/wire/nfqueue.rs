//! Packets that a rule of the kernel hands to a program, and what becomes of them: nfnetlink_queue, and the one rule of
//! nf_tables that hands them over on kernels whose nf_tables has no `queue` (linux/netfilter headers).
//!
//! Attributes' values are in the network's order, headers in the host's. Malformed bytes are no packet, never a panic.

/// NFNL_SUBSYS_QUEUE, NFNL_SUBSYS_NFTABLES (nfnetlink.h).
const QUEUE: u16 = 3 << 8;
const NFTABLES: u16 = 10 << 8;
/// NFQNL_MSG_PACKET, NFQNL_MSG_VERDICT, NFQNL_MSG_CONFIG (nfnetlink_queue.h).
const PACKET: u16 = QUEUE;
const VERDICT: u16 = QUEUE | 1;
const CONFIG: u16 = QUEUE | 2;
/// NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END, NFT_MSG_NEWRULE.
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_RULE: u16 = NFTABLES | 6;
/// NLMSG_ERROR (netlink.h).
const ERROR: u16 = 2;
/// NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE, NLM_F_APPEND.
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const CREATE_LAST: u16 = 0xc00;
/// NFPROTO_INET (netfilter.h).
const INET: u8 = 1;
/// Lengths of `struct nlmsghdr` and `struct nfgenmsg`.
const HEADER: usize = 16;
const GENERIC: usize = 4;
/// NFQA_PACKET_HDR, NFQA_VERDICT_HDR, NFQA_PAYLOAD.
const PACKET_HEADER: u16 = 1;
const VERDICT_HEADER: u16 = 2;
const PAYLOAD: u16 = 10;
/// NF_INET_LOCAL_IN, NF_INET_LOCAL_OUT, NF_ACCEPT (netfilter.h).
const LOCAL_IN: u8 = 1;
const LOCAL_OUT: u8 = 3;
const ACCEPT: u32 = 1;
/// NLA_F_NESTED.
const NESTED: u16 = 0x8000;
/// Packets that wait for the program at most; more are let through (NFQA_CFG_F_FAIL_OPEN). Ours.
const MOST_WAITING: u32 = 1024;

/// Appends one message: header, family, queue or subsystem, attributes.
fn message(out: &mut Vec<u8>, kind: u16, flags: u16, sequence: u32, (family, resource): (u8, u16), body: &[u8]) {
    let length = (HEADER + GENERIC + body.len()) as u32;
    out.extend_from_slice(&length.to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&(REQUEST | flags).to_ne_bytes());
    out.extend_from_slice(&sequence.to_ne_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&[family, 0]);
    out.extend_from_slice(&resource.to_be_bytes());
    out.extend_from_slice(body);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Appends one attribute.
fn attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn with(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    attribute(&mut out, kind, value);
    out
}

/// What binds queue `number` to the socket that it is sent on, in four messages numbered from 1, each acknowledged: whole packets
/// are wanted, as the kernel has them, and those for which there is no room go on as they are.
pub fn bind(number: u16) -> Vec<Vec<u8>> {
    /// NFQA_CFG_CMD (NFQNL_CFG_CMD_BIND), NFQA_CFG_PARAMS (NFQNL_COPY_PACKET), NFQA_CFG_QUEUE_MAXLEN, NFQA_CFG_MASK and
    /// NFQA_CFG_FLAGS (NFQA_CFG_F_FAIL_OPEN, NFQA_CFG_F_GSO).
    const FLAGS: u32 = 1 | 4;
    let range = 0xffffu32.to_be_bytes();
    let flags = [with(4, &FLAGS.to_be_bytes()), with(5, &FLAGS.to_be_bytes())].concat();
    let bodies = [
        with(1, &[1, 0, 0, 0]),
        with(2, &[range[0], range[1], range[2], range[3], 2]),
        with(3, &MOST_WAITING.to_be_bytes()),
        flags,
    ];
    let numbered = bodies.iter().zip(1..);
    numbered
        .map(|(body, sequence)| {
            let mut out = Vec::new();
            message(&mut out, CONFIG, ACK, sequence, (0, number), body);
            out
        })
        .collect()
}

/// The rule, appended to `chain` of table `inet TABLE`, that hands packets to queue `number`, and lets them through while no
/// program reads from it: the target NFQUEUE of xtables, by way of nft_compat. Its acknowledgement has number 2.
pub fn rule(table: &str, chain: &str, number: u16) -> Vec<u8> {
    /// Third revision of the target; NFQ_FLAG_BYPASS.
    const REVISION: u32 = 3;
    const BYPASS: u16 = 1;
    let text = |kind, text: &str| with(kind, &[text.as_bytes(), &[0]].concat());
    let info: Vec<u8> = [number, 1, BYPASS].into_iter().flat_map(u16::to_ne_bytes).collect();
    let target = [text(1, "NFQUEUE"), with(2, &REVISION.to_be_bytes()), with(3, &info)].concat();
    let expression = [text(1, "target"), with(2 | NESTED, &target)].concat();
    let protocol = [with(1, &[0; 4]), with(2, &[0; 4])].concat();
    let body =
        [text(1, table), text(2, chain), with(4 | NESTED, &with(1 | NESTED, &expression)), with(5 | NESTED, &protocol)];
    let mut out = Vec::new();
    message(&mut out, BATCH_BEGIN, 0, 1, (0, NFTABLES >> 8), &[]);
    message(&mut out, NEW_RULE, ACK | CREATE_LAST, 2, (INET, 0), &body.concat());
    message(&mut out, BATCH_END, 0, 3, (0, NFTABLES >> 8), &[]);
    out
}

/// Where a packet was on its way to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To a program of this host.
    In,
    /// To another host.
    Out,
    /// Anywhere else.
    Other,
}

/// What the kernel sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A packet that waits for a verdict.
    Packet {
        /// Its number.
        id: u32,
        /// Where to.
        direction: Direction,
        /// The packet, from the IP header on.
        payload: &'a [u8],
    },
    /// What became of request `sequence`: zero, or the error's number.
    Acknowledged {
        /// Which.
        sequence: u32,
        /// The error's number, positive.
        error: i32,
    },
}

/// The messages in what a socket brought; what is none of these is passed over.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        loop {
            let head = rest.first_chunk::<HEADER>()?;
            let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let kind = u16::from_ne_bytes([head[4], head[5]]);
            let sequence = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]);
            let body = rest.get(HEADER..length)?;
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            match kind {
                PACKET => {
                    if let Some(packet) = packet(body) {
                        return Some(packet);
                    }
                }
                ERROR => {
                    let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    return Some(Message::Acknowledged { sequence, error: code.saturating_neg() });
                }
                _ => {}
            }
        }
    })
}

fn packet(body: &[u8]) -> Option<Message<'_>> {
    let mut rest = body.get(GENERIC..)?;
    let (mut header, mut payload) = (None, None);
    while let Some(head) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = rest.get(4..length)?;
        match u16::from_ne_bytes([head[2], head[3]]) & !NESTED {
            PACKET_HEADER => header = value.first_chunk::<7>(),
            PAYLOAD => payload = Some(value),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    let header = header?;
    let direction = match header[6] {
        LOCAL_IN => Direction::In,
        LOCAL_OUT => Direction::Out,
        _ => Direction::Other,
    };
    let id = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    // Without a payload it still waits for its verdict.
    Some(Message::Packet { id, direction, payload: payload.unwrap_or_default() })
}

/// Lets packet `id` of queue `number` go on: as it is, or as `changed`.
pub fn accept(out: &mut Vec<u8>, number: u16, id: u32, changed: Option<&[u8]>) {
    let mut body = with(VERDICT_HEADER, &[ACCEPT.to_be_bytes(), id.to_be_bytes()].concat());
    if let Some(changed) = changed {
        attribute(&mut body, PAYLOAD, changed);
    }
    message(out, VERDICT, 0, 0, (0, number), &body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::netlink::{Attribute, attributes};
    use proptest::prelude::*;

    fn from_kernel(id: u32, hook: u8, payload: &[u8]) -> Vec<u8> {
        let mut header = id.to_be_bytes().to_vec();
        header.extend_from_slice(&[8, 0, hook]);
        let mut out = Vec::new();
        message(&mut out, PACKET, 0, 0, (2, 7), &[with(PACKET_HEADER, &header), with(PAYLOAD, payload)].concat());
        out
    }

    #[test]
    fn packets_and_acknowledgements_are_read_one_after_the_other() {
        let mut bytes = from_kernel(9, LOCAL_OUT, b"packet");
        message(&mut bytes, 99, 0, 0, (0, 0), b"unknown");
        bytes.extend(from_kernel(10, LOCAL_IN, b""));
        let refused = [20u32.to_ne_bytes(), [2, 0, 0, 0], 5u32.to_ne_bytes(), [0; 4], (-13i32).to_ne_bytes()].concat();
        bytes.extend(refused);
        let read: Vec<_> = messages(&bytes).collect();
        assert_eq!(
            read,
            [
                Message::Packet { id: 9, direction: Direction::Out, payload: b"packet" },
                Message::Packet { id: 10, direction: Direction::In, payload: b"" },
                Message::Acknowledged { sequence: 5, error: 13 },
            ]
        );
    }

    #[test]
    fn what_is_sent_is_made_of_whole_words_and_says_its_own_length() {
        let mut verdict = Vec::new();
        accept(&mut verdict, 7, 9, Some(b"longer"));
        for bytes in [bind(7).remove(1), rule("table", "chain", 7), verdict] {
            let mut rest = bytes.as_slice();
            while let Some(length) = rest.first_chunk() {
                let length = u32::from_ne_bytes(*length) as usize;
                assert!(length >= HEADER + GENERIC && length <= rest.len());
                rest = &rest[length.next_multiple_of(4).min(rest.len())..];
            }
            assert!(rest.is_empty());
        }
    }

    /// The messages in `bytes` that are for the kernel: kind, flags, family, resource and attributes.
    fn told(mut bytes: &[u8]) -> Vec<(u16, u16, u8, u16, Vec<Attribute>)> {
        let mut all = Vec::new();
        while let Some(head) = bytes.first_chunk::<{ HEADER + GENERIC }>() {
            let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let word = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
            let attributes = attributes(&bytes[HEADER + GENERIC..length]).unwrap();
            all.push((word(4), word(6), head[16], u16::from_be_bytes([head[18], head[19]]), attributes));
            bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
        }
        all
    }

    #[test]
    fn a_verdict_lets_one_packet_of_one_queue_go_on() {
        for changed in [None, Some(&b"longer"[..])] {
            let mut bytes = Vec::new();
            accept(&mut bytes, 7, 9, changed);
            let header = Attribute::new(VERDICT_HEADER, [0, 0, 0, 1, 0, 0, 0, 9]);
            let payload = changed.map(|changed| Attribute::new(PAYLOAD, changed));
            let attributes = std::iter::once(header).chain(payload).collect();
            assert_eq!(told(&bytes), [(0x301, REQUEST, 0, 7, attributes)], "it asks for no acknowledgement");
        }
    }

    #[test]
    fn the_rule_is_one_batch_for_nf_tables_whose_target_is_nested_as_the_kernel_reads_it() {
        let [begin, rule, end] = &told(&rule("table", "chain", 7))[..] else { panic!("three messages") };
        // The batch is of subsystem 10.
        assert_eq!((begin.0, begin.1, begin.3), (0x10, REQUEST, 10));
        assert_eq!((end.0, end.1, end.3), (0x11, REQUEST, 10));
        assert_eq!((rule.0, rule.1, rule.2), (0xa06, 0xc05, INET));
        let nested = |all: &[Attribute], kind: u16| {
            let found =
                all.iter().find(|attribute| attribute.raw_kind == 0x8000 | kind).expect("it is marked as nested");
            attributes(&found.value).unwrap()
        };
        let text = |all: &[Attribute], kind| all.iter().find(|one| one.raw_kind == kind).map(|one| one.value.clone());
        assert_eq!((text(&rule.4, 1), text(&rule.4, 2)), (Some(b"table\0".to_vec()), Some(b"chain\0".to_vec())));
        let expression = nested(&nested(&rule.4, 4), 1);
        assert_eq!(text(&expression, 1), Some(b"target\0".to_vec()));
        let target = nested(&expression, 2);
        assert_eq!((text(&target, 1), text(&target, 2)), (Some(b"NFQUEUE\0".to_vec()), Some(vec![0, 0, 0, 3])));
        // One queue, the seventh, that packets bypass while no process reads from it.
        assert_eq!(text(&target, 3), Some([7u16, 1, 1].map(u16::to_ne_bytes).concat()));
        assert_eq!(nested(&rule.4, 5).len(), 2, "whatever the protocol");
    }

    proptest! {
        #[test]
        fn any_bytes_are_messages_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..60) {
            messages(&bytes).for_each(drop);
            let whole = from_kernel(1, LOCAL_OUT, &bytes);
            messages(&whole[..whole.len() - cut.min(whole.len())]).for_each(drop);
        }
    }
}
