//! What has ended, and what was seen of it: what a forwarder and the programs in the kernel hand out.

use super::echo_flow::EchoFlow;
use super::observed::Flow;
use super::udp_flow::UdpFlow;
use crate::time::{Duration, Instant};
use crate::wire::dns::Answer;
use crate::wire::record::RecordType;
use std::net::SocketAddr;

/// A question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsExchange {
    /// The program that asked.
    pub app: SocketAddr,
    /// The server that answered.
    pub server: SocketAddr,
    /// The name, as far as it could be read.
    pub name: String,
    /// When it was asked.
    pub asked: Instant,
    /// How long the answer took.
    pub took: Duration,
    /// What was said, and of which type of record, if that is one of those that lead to a connection.
    pub answer: Option<(RecordType, Answer)>,
    /// The answer, as it came.
    pub reply: Vec<u8>,
    /// It was not the server that answered now: the answer is what it said before, and how long that took says nothing of the network.
    pub cached: bool,
}

/// Something that has ended, and what was seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A TCP connection.
    Flow(Box<Flow>),
    /// A DNS lookup.
    Dns(DnsExchange),
    /// Datagrams between a port of a program and a peer, lookups aside.
    Udp(Box<UdpFlow>),
    /// Requests for an echo and their replies.
    Echo(EchoFlow),
}
