//! The near end of a measurement: a program of a few lines that says in one line of JSON what it saw. It is started by
//! the experiments, without a TUN and through forwarders, and knows nothing of either.

use super::semantics;
use super::throughput::{self, phone};
use super::{cost, gaps, latency, least, truth};
use serde_json::Value;
use std::io;
use std::net::SocketAddr;

/// What a probe cannot do.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No such workload, or its words are off.
    #[error("unknown workload {0:?}")]
    Unknown(Vec<String>),
    /// It could not be done.
    #[error("the workload {workload}: {source}")]
    Failed {
        /// Its name.
        workload: String,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Does what the words say; what was seen.
pub fn run(words: &[String]) -> Result<Value, ProbeError> {
    let unknown = || ProbeError::Unknown(words.to_vec());
    let (name, rest) = words.split_first().ok_or_else(unknown)?;
    let address = |n: usize| rest.get(n).and_then(|word| word.parse::<SocketAddr>().ok()).ok_or_else(unknown);
    let number = |n: usize| rest.get(n).and_then(|word| word.parse::<u64>().ok()).ok_or_else(unknown);
    let failed = |source| ProbeError::Failed { workload: name.clone(), source };
    if let Some(check) = semantics::find(name) {
        let quick = rest.get(2).is_some_and(|word| word == "quick");
        let target = semantics::Target { tcp: address(0)?, udp: address(1)?, quick };
        // What fails is what was seen.
        let said = (check.program)(&target).unwrap_or_else(|e| format!("failed: {:?}", e.kind()));
        return Ok(serde_json::json!({ "said": said }));
    }
    match name.as_str() {
        latency::WORKLOAD => latency::probe(address(0)?, number(1)?).map_err(failed),
        latency::REFUSED => Ok(latency::refused(address(0)?)),
        throughput::WORKLOAD => {
            let up = rest.get(1).ok_or_else(unknown)? == "up";
            throughput::probe(address(0)?, up, number(2)?, number(3)?).map_err(failed)
        }
        cost::CROWD => cost::crowd(address(0)?, number(1)?, number(2)?).map_err(failed),
        cost::PACED => {
            let up = rest.get(1).ok_or_else(unknown)? == "up";
            cost::paced(address(0)?, up, number(2)?).map_err(failed)
        }
        cost::PARKED => cost::parked(address(0)?, rest.get(1).is_some_and(|word| word == "later")).map_err(failed),
        gaps::WORKLOAD => {
            let kind = rest.get(1).ok_or_else(unknown)?;
            gaps::probe(address(0)?, kind, number(2)?).map_err(failed)
        }
        phone::DAY => phone::day(address(0)?).map_err(failed),
        least::LEAST => least::probe(rest).map_err(failed),
        truth::OWNERS => truth::owners_probe(address(0)?, &rest[1..]).map_err(failed),
        truth::RATE => truth::rate_probe(address(0)?, number(1)?).map_err(failed),
        truth::RTT => truth::rtt_probe(address(0)?, number(1)?).map_err(failed),
        _ => Err(unknown()),
    }
}
