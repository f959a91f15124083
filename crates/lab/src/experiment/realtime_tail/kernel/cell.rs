//! What each node does during a round: the sender makes messages, relays pass them on, the receiver notes them.

use super::ends::{Far, Near};
use super::record::{PAUSE, STREAM};
use super::{ARMS, PATIENCE, Plan};
use crate::sim::messages::{self, START_WITH_BULK, TOUCH};
use anyhow::Context as _;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;

/// How often it is looked whether all has arrived, and whether the round is over.
const GLANCE: Duration = Duration::from_millis(20);
/// Bytes of the bulk flow that are written or read at once.
const BULK: usize = 64 << 10;

/// One thread, in the node's namespace, does all that the node does.
fn runtime() -> anyhow::Result<Runtime> {
    // Where the kernel does not know of it, turns are as long as others'.
    let _ = headstart_io::sys::schedule::short_turns(super::TURN);
    Builder::new_current_thread().enable_all().build().context("starting a node of the streams")
}

/// Makes and sends all messages, and waits for what is still to arrive.
pub fn send(plan: &Plan, listening: &Barrier) -> anyhow::Result<()> {
    listening.wait();
    let result = runtime().and_then(|runtime| {
        runtime.block_on(async {
            let mut cells = JoinSet::new();
            for cell in 0..plan.size.cells {
                cells.spawn(one_cell(plan.clone(), cell));
            }
            while let Some(result) = cells.join_next().await {
                result.context("a cell died")??;
            }
            anyhow::Ok(())
        })
    });
    plan.over.store(true, Ordering::Release);
    result
}

async fn one_cell(plan: Plan, cell: usize) -> anyhow::Result<()> {
    if plan.bulk {
        let bulk = TcpStream::connect(plan.bulk_address(cell)).await.context("connecting for the bulk flow")?;
        tokio::spawn(swallow(bulk));
    }
    let mut opening = JoinSet::new();
    for (arm, name) in ARMS.iter().enumerate() {
        let (to, stack) = (plan.address(cell, 0, arm), plan.stack);
        opening.spawn(async move {
            let near = Near::open(name, to, stack, true).await.with_context(|| format!("opening {name} to {to}"))?;
            near.ready().await;
            anyhow::Ok((arm, near))
        });
    }
    let mut nears = Vec::new();
    let opened = tokio::time::timeout(PATIENCE, async {
        while let Some(opened) = opening.join_next().await {
            nears.push(opened.context("a way of sending died")??);
        }
        anyhow::Ok(())
    });
    opened.await.context("connections could not be opened: close other programs and try again")??;
    nears.sort_unstable_by_key(|(arm, _)| *arm);
    if plan.bulk {
        tokio::time::sleep(START_WITH_BULK).await;
    }
    // So that the messages of all cells are not made at one moment.
    tokio::time::sleep(TOUCH.interval * cell as u32 / plan.size.cells as u32).await;
    for _ in 0..plan.size.streams {
        one_stream(&plan, cell, &mut nears).await?;
    }
    // The last messages of the last stream may still be on their way.
    let since = plan.records.clock.now();
    while !plan.records.is_complete(cell) && plan.records.clock.now().since(since) < messages::PATIENCE {
        tokio::time::sleep(GLANCE).await;
    }
    Ok(())
}

async fn one_stream(plan: &Plan, cell: usize, nears: &mut [(usize, Near)]) -> anyhow::Result<()> {
    let records = &plan.records;
    let begin = records.clock.now();
    for number in 0..STREAM {
        let due = begin + TOUCH.interval * number;
        tokio::time::sleep(due.since(records.clock.now())).await;
        // Each is the first to be sent as often as any other.
        let count = nears.len();
        nears.rotate_left(usize::from(number > 0) % count.max(1));
        for (arm, near) in nears.iter_mut() {
            if number == TOUCH.before {
                records.carried(cell, *arm, 0, near.traffic());
            }
            let mut message = records.made(cell, *arm).to_be_bytes().to_vec();
            message.resize(TOUCH.bytes, 0);
            near.send(&message).await.with_context(|| format!("sending by {}", ARMS[*arm]))?;
        }
    }
    tokio::time::sleep(PAUSE).await;
    for (arm, near) in nears.iter() {
        records.carried(cell, *arm, 1, near.traffic());
    }
    Ok(())
}

/// Takes what comes over hop `hop - 1` of every cell: at the last node that is what has arrived, at others it goes on.
pub fn receive(plan: &Plan, hop: usize, listening: &Barrier) -> anyhow::Result<()> {
    let runtime = runtime();
    let bound = runtime
        .as_ref()
        .map_err(|_| anyhow::anyhow!("no runtime"))
        .and_then(|runtime| runtime.block_on(bind(plan, hop)));
    // Whatever has failed, the others wait for it.
    listening.wait();
    let (runtime, (fars, bulk)) = (runtime?, bound?);
    runtime.block_on(async {
        for listener in bulk {
            tokio::spawn(pour(listener));
        }
        for (cell, arm, far) in fars {
            let (plan, records) = (plan.clone(), Arc::clone(&plan.records));
            tokio::spawn(async move {
                if let Err(error) = one_far(plan, cell, arm, hop, far).await {
                    records.failed(format!("{} at node {hop}: {error:#}", ARMS[arm]));
                }
            });
        }
        while !plan.over.load(Ordering::Acquire) {
            tokio::time::sleep(GLANCE).await;
        }
    });
    Ok(())
}

type Bound = (Vec<(usize, usize, Far)>, Vec<TcpListener>);

async fn bind(plan: &Plan, hop: usize) -> anyhow::Result<Bound> {
    let (mut fars, mut bulk) = (Vec::new(), Vec::new());
    for cell in 0..plan.size.cells {
        for (arm, name) in ARMS.iter().enumerate() {
            fars.push((cell, arm, Far::bind(name, plan.address(cell, hop - 1, arm)).await?));
        }
        if plan.bulk && hop == 1 {
            let at: SocketAddr = plan.bulk_address(cell);
            bulk.push(TcpListener::bind(at).await.with_context(|| format!("listening at {at} for the bulk flow"))?);
        }
    }
    Ok((fars, bulk))
}

async fn one_far(plan: Plan, cell: usize, arm: usize, hop: usize, far: Far) -> anyhow::Result<()> {
    let (out, mut messages) = unbounded_channel::<Vec<u8>>();
    let coming = tokio::spawn(far.run(plan.stack, out));
    if hop == plan.hops {
        while let Some(message) = messages.recv().await {
            for message in message.chunks_exact(TOUCH.bytes) {
                if let Some(number) = message.first_chunk() {
                    plan.records.arrived(cell, arm, u32::from_be_bytes(*number));
                }
            }
        }
    } else {
        let mut near = Near::open(ARMS[arm], plan.address(cell, hop, arm), plan.stack, false).await?;
        while let Some(message) = messages.recv().await {
            near.send(&message).await?;
        }
    }
    coming.await?
}

/// The bulk flow, from where it comes.
async fn pour(listener: TcpListener) {
    let Ok((mut stream, _)) = listener.accept().await else { return };
    let bytes = vec![0; BULK];
    while stream.write_all(&bytes).await.is_ok() {}
}

/// And where it goes.
async fn swallow(mut stream: TcpStream) {
    let mut bytes = vec![0; BULK];
    while matches!(stream.read(&mut bytes).await, Ok(1..)) {}
}
