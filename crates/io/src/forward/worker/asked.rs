//! Which of the host's addresses a stranger has sent its datagrams to: its answers come from there. The program has the usual one alone, and
//! so does not know.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Strangers of a port that are remembered. 4096: what is answered is answered soon, so these are the ones that have asked in the last moments.
const MOST: usize = 4096;

/// Strangers that have asked at another address than the usual one; who has done so first makes room.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    at: HashMap<SocketAddr, IpAddr>,
    order: VecDeque<SocketAddr>,
}

impl Strangers {
    /// A datagram has come to this address of the host, of which the program has the `usual` one.
    pub fn came(&mut self, from: SocketAddr, at: IpAddr, usual: IpAddr) {
        if at == usual {
            // Its place in the order stays, and is another's or nobody's when its turn comes.
            self.at.remove(&from);
            return;
        }
        if self.at.insert(from, at).is_none() {
            self.order.push_back(from);
        }
        while self.order.len() > MOST {
            let oldest = self.order.pop_front();
            oldest.and_then(|oldest| self.at.remove(&oldest));
        }
    }

    /// Where this stranger has asked, if not at the usual address.
    pub fn at(&self, stranger: SocketAddr) -> Option<IpAddr> {
        self.at.get(&stranger).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(n: usize) -> SocketAddr {
        SocketAddr::from(([203, 0, (n >> 14) as u8, (n >> 7 & 127) as u8], 1000 + (n & 127) as u16))
    }

    #[test]
    fn a_stranger_is_answered_from_where_it_has_asked_last() {
        let (mut asked, usual, other): (_, IpAddr, IpAddr) =
            (Strangers::default(), [192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        asked.came(stranger(1), usual, usual);
        assert_eq!(asked.at(stranger(1)), None);
        asked.came(stranger(1), other, usual);
        assert_eq!((asked.at(stranger(1)), asked.at(stranger(2))), (Some(other), None));
        asked.came(stranger(1), usual, usual);
        assert_eq!(asked.at(stranger(1)), None);
    }

    #[test]
    fn of_many_strangers_the_last_are_remembered() {
        let (mut asked, usual, other): (_, IpAddr, IpAddr) =
            (Strangers::default(), [192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        (0..3 * MOST).for_each(|n| asked.came(stranger(n), other, usual));
        assert_eq!((asked.at.len(), asked.order.len()), (MOST, MOST));
        assert_eq!((asked.at(stranger(3 * MOST - 1)), asked.at(stranger(2 * MOST - 1))), (Some(other), None));
        // One that asks here and there takes no more places than others.
        for n in 0..3 * MOST {
            asked.came(stranger(1), if n % 2 == 0 { other } else { usual }, usual);
        }
        assert!(asked.order.len() <= MOST && asked.at.len() <= MOST);
    }
}
