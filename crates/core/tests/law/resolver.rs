//! Resolvers of the programs: glibc's, Go's and musl's, as their sources say, each with its own patience.

use super::sim::{Os, Outcome, Reply, Wait, ms};
use headstart_core::path::Family;
use headstart_core::time::{Duration, Instant};
use headstart_core::wire::record::RecordType;
use std::net::IpAddr;

/// RFC 6724 as it comes out here: what has a route before what has none, then IPv6 before IPv4.
fn sorted(os: &Os, mut list: Vec<IpAddr>) -> Vec<IpAddr> {
    let (v4, v6) = os.0.borrow().routes();
    list.sort_by_key(|a| (!(if a.is_ipv4() { v4 } else { v6 }), a.is_ipv4()));
    list
}

/// A, then AAAA, as far as the program's hints allow them.
fn wanted(os: &Os) -> Vec<RecordType> {
    let world = os.0.borrow().world.clone();
    [Family::V4, Family::V6].into_iter().filter(|f| world.allows(*f)).map(RecordType::from).collect()
}

/// Questions from one socket, each with what was said to it.
struct Exchange {
    os: Os,
    server: usize,
    socket: u64,
    calls: Vec<(RecordType, Wait)>,
}

impl Exchange {
    fn new(os: &Os, server: usize) -> Self {
        // Every call has another number, and so has every socket.
        let socket = os.0.borrow_mut().call() as u64;
        Self { os: os.clone(), server, socket, calls: Vec::new() }
    }

    /// Another try: what was said before has been read; what has not been answered yet may still be.
    fn ask_anew(&mut self, record: RecordType) {
        let sim = self.os.0.borrow();
        self.calls.retain(|(of, wait)| *of != record || sim.outcome(wait.call).is_none());
        drop(sim);
        self.ask(record);
    }

    fn ask(&mut self, record: RecordType) {
        self.calls.push((record, self.os.ask(self.server, record, self.socket)));
    }

    fn reply(&self, record: RecordType) -> Option<Reply> {
        let sim = self.os.0.borrow();
        let replies = self.calls.iter().filter(|(r, _)| *r == record).filter_map(|(_, wait)| sim.outcome(wait.call));
        replies.map(reply).next()
    }

    fn has(&self, records: &[RecordType]) -> bool {
        records.iter().all(|r| self.reply(*r).is_some())
    }

    /// Waits until all of `records` are answered, or for so long. Whether they are.
    async fn until(&self, records: &[RecordType], time: Duration) -> bool {
        let timer = self.os.sleep(time);
        std::future::poll_fn(|_| {
            let over = self.os.0.borrow().outcome(timer.call).is_some();
            let has = self.has(records);
            if has || over { std::task::Poll::Ready(has) } else { std::task::Poll::Pending }
        })
        .await
    }
}

fn reply(outcome: &Outcome) -> Reply {
    match outcome {
        Outcome::Reply(reply) => reply.clone(),
        _ => Reply::Fails,
    }
}

/// glibc 2.36, resolv/res_send.c: two tries over all servers, 5 s for the first; both questions from one socket, which
/// stays open from try to try. Where one answer is missing it asks one after the other, then from another socket, and
/// then does with what it has: addresses of AAAA alone are dropped, for the first answer is missing.
pub async fn glibc(os: &Os) -> Vec<IpAddr> {
    let records = wanted(os);
    let servers = os.0.borrow().world.servers.len();
    let mut open: Vec<Option<Exchange>> = (0..servers).map(|_| None).collect();
    let mut single = false;
    for _ in 0..2 {
        for (server, slot) in open.iter_mut().enumerate() {
            let patience = match server {
                0 => ms(5000),
                n => ms(((5 << n) / servers as u64).max(1) * 1000),
            };
            if !single {
                let exchange = slot.get_or_insert_with(|| Exchange::new(os, server));
                records.iter().for_each(|r| exchange.ask_anew(*r));
                if exchange.until(&records, patience).await {
                    match combine(os, exchange, &records) {
                        Some(list) => return list,
                        None => continue,
                    }
                }
                if records.iter().all(|r| exchange.reply(*r).is_none()) {
                    continue;
                }
                single = true;
            }
            for last in [false, true] {
                let mut exchange = Exchange::new(os, server);
                let mut complete = true;
                for record in &records {
                    exchange.ask(*record);
                    complete = exchange.until(&[*record], patience).await;
                    if !complete {
                        break;
                    }
                }
                if complete {
                    match combine(os, &exchange, &records) {
                        Some(list) => return list,
                        None => break,
                    }
                }
                match exchange.reply(records[0]) {
                    None => break,
                    Some(Reply::Addresses(list)) if last => return sorted(os, list),
                    Some(_) if last => return Vec::new(),
                    Some(_) => {}
                }
            }
        }
    }
    Vec::new()
}

/// The result of a whole set of answers; `None` if the next server is to be asked.
fn combine(os: &Os, exchange: &Exchange, records: &[RecordType]) -> Option<Vec<IpAddr>> {
    let replies: Vec<_> = records.iter().filter_map(|r| exchange.reply(*r)).collect();
    let list: Vec<_> = replies.iter().flat_map(addresses).collect();
    let failed = replies.iter().all(|r| *r == Reply::Fails);
    if failed { None } else { Some(sorted(os, list)) }
}

fn addresses(reply: &Reply) -> Vec<IpAddr> {
    match reply {
        Reply::Addresses(list) => list.clone(),
        _ => Vec::new(),
    }
}

/// Go 1.2x, net/dnsclient_unix.go: each question on its own, two tries over all servers, 5 s each, from a new socket; what
/// one family has is enough.
pub async fn go(os: &Os) -> Vec<IpAddr> {
    let records = wanted(os);
    let each = |record| async move {
        let servers = os.0.borrow().world.servers.len();
        for server in (0..2).flat_map(|_| 0..servers) {
            let mut exchange = Exchange::new(os, server);
            exchange.ask(record);
            exchange.until(&[record], ms(5000)).await;
            match exchange.reply(record) {
                Some(Reply::Fails) | None => {}
                Some(reply) => return addresses(&reply),
            }
        }
        Vec::new()
    };
    let list = match records[..] {
        [one] => each(one).await,
        _ => {
            let (a, aaaa) = both(each(RecordType::A), each(RecordType::Aaaa)).await;
            [a, aaaa].concat()
        }
    };
    sorted(os, list)
}

async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    let (mut one, mut other) = (None, None);
    std::future::poll_fn(|context| {
        use std::task::Poll;
        if one.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(context)
        {
            one = Some(value);
        }
        if other.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(context)
        {
            other = Some(value);
        }
        match (one.take(), other.take()) {
            (Some(x), Some(y)) => Poll::Ready((x, y)),
            (x, y) => {
                (one, other) = (x, y);
                Poll::Pending
            }
        }
    })
    .await
}

/// musl 1.2, src/network/res_msend.c: all servers at once, asked again after half of the 5 s, which are all there is; a
/// failure is asked again twice at once. All questions must be answered.
pub async fn musl(os: &Os) -> Vec<IpAddr> {
    let records = wanted(os);
    let servers = os.0.borrow().world.servers.len();
    let mut exchanges: Vec<_> = (0..servers).map(|server| Exchange::new(os, server)).collect();
    let end = os.now() + ms(5000);
    let mut again: Instant = os.now();
    // The first answer to each question holds, whichever server it is from.
    let mut answers: Vec<(RecordType, Reply)> = Vec::new();
    loop {
        for record in &records {
            let mut replies = exchanges.iter().flat_map(|e| all(e, *record));
            if let Some(reply) = replies.find(|reply| *reply != Reply::Fails)
                && answers.iter().all(|(of, _)| of != record)
            {
                answers.push((*record, reply));
            }
        }
        let good = |record: RecordType| answers.iter().find(|(of, _)| *of == record).map(|(_, reply)| reply.clone());
        if let Some(replies) = records.iter().map(|r| good(*r)).collect::<Option<Vec<_>>>() {
            return sorted(os, replies.iter().flat_map(addresses).collect());
        }
        if os.now() >= end {
            return Vec::new();
        }
        if os.now() >= again {
            let missing: Vec<_> = records.iter().copied().filter(|r| good(*r).is_none()).collect();
            exchanges.iter_mut().for_each(|e| missing.iter().for_each(|r| e.ask(*r)));
            again = os.now() + ms(2500);
            continue;
        }
        let seen =
            |es: &[Exchange]| records.iter().map(|r| es.iter().map(|e| all(e, *r).len()).sum::<usize>()).sum::<usize>();
        let before = seen(&exchanges);
        let timer = os.sleep(again.min(end) - os.now());
        std::future::poll_fn(|_| {
            let over = os.0.borrow().outcome(timer.call).is_some();
            if over || seen(&exchanges) != before { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        for exchange in &mut exchanges {
            for record in &records {
                let replies = all(exchange, *record);
                let asked = exchange.calls.iter().filter(|(r, _)| r == record).count();
                if replies.last() == Some(&Reply::Fails) && replies.len() == asked && asked < 4 {
                    exchange.ask(*record);
                }
            }
        }
    }
}

/// All that was said to `record` on this socket.
fn all(exchange: &Exchange, record: RecordType) -> Vec<Reply> {
    let sim = exchange.os.0.borrow();
    exchange.calls.iter().filter(|(r, _)| *r == record).filter_map(|(_, w)| sim.outcome(w.call).map(reply)).collect()
}
