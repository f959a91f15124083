//! Where things are done ahead of programs (`--ahead`), their questions on the way out: what the accelerator has an answer to is answered
//! here, and what comes for its own questions is handed to it.
//!
//! Of questions, plain ones for addresses over UDP are answered; all else goes out as it is, as does what is not known.

use super::accelerator::Accelerator;
use super::{Teller, Worker};
use headstart_core::forward::{HEADROOM, MappingId};
use headstart_core::machine::Machine;
use headstart_core::time::Instant;
use headstart_core::wire::relay::Question;
use std::net::SocketAddr;

/// The port of DNS.
const DNS: u16 = 53;

/// A program's datagram on its way out.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub mapping: MappingId,
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
    pub from: usize,
    pub marks: (u8, u8, bool),
    pub train: Option<u16>,
}

/// A question whose asker is being asked for.
#[derive(Debug)]
pub(super) struct HeldQuestion {
    pub question: Question,
    pub server: SocketAddr,
    /// It waits for that until then, and has not been sent.
    pub held: Option<(Instant, Outgoing)>,
}

impl Worker {
    /// Sends a program's datagram, unless it is a question that is answered here.
    pub(super) fn send_or_answer(&mut self, now: Instant, datagram: Outgoing) {
        let Outgoing { mapping, to, train, .. } = datagram;
        let does =
            self.accelerator.as_ref().is_some_and(Accelerator::does_ahead) && to.port() == DNS && train.is_none();
        let question = does.then(|| Question::read(&datagram.bytes[datagram.from..])).flatten();
        let question = question.filter(|question| question.record.family().is_some());
        self.identify_port(now, mapping, to);
        let Some((question, accelerator)) = question.zip(self.accelerator.as_mut()) else {
            return self.transmit(now, datagram);
        };
        match &mut self.teller {
            Teller::Kernel { .. } => {
                let user = self.ports.get(&mapping).and_then(|port| port.whose.as_ref()?.owner).map(|owner| owner.user);
                let answer = user.and_then(|user| accelerator.ask(now, &self.poll, user, to, &question));
                self.raced(now);
                self.answer_or_send(now, datagram, answer);
            }
            Teller::Program(told) => {
                let held = accelerator.anyone_was_told(now, to, &question);
                let datagram = told.hold_question(now, (question, to), datagram, held);
                datagram.into_iter().for_each(|datagram| self.transmit(now, datagram));
            }
        }
    }

    /// It is known who has asked, or that this is not known.
    pub(super) fn asker_is(&mut self, now: Instant, user: Option<u32>, asked: HeldQuestion) {
        let HeldQuestion { question, server, held } = asked;
        let answer = self
            .accelerator
            .as_mut()
            .zip(user)
            .and_then(|(accelerator, user)| accelerator.ask(now, &self.poll, user, server, &question));
        self.raced(now);
        if let Some((_, datagram)) = held {
            self.answer_or_send(now, datagram, answer);
        }
        self.drain_all(now);
    }

    fn answer_or_send(&mut self, now: Instant, datagram: Outgoing, answer: Option<Vec<u8>>) {
        let Some(answer) = answer else { return self.transmit(now, datagram) };
        let mut bytes = vec![0; HEADROOM];
        bytes.extend(answer);
        let (mapping, server) = (datagram.mapping, datagram.to);
        self.forwarder.handle_input(now, headstart_core::forward::Input::Answered { mapping, server, bytes });
    }

    pub(super) fn transmit(&mut self, now: Instant, datagram: Outgoing) {
        let Outgoing { mapping, to, bytes, from, marks, train } = datagram;
        self.send_datagram(now, mapping, to, &bytes[from..], marks, train);
    }

    /// Something has come for a query that was sent ahead.
    pub(super) fn looked_up(&mut self, now: Instant, number: u64) {
        let Some(accelerator) = &mut self.accelerator else { return };
        accelerator.replied(now, &self.poll, number);
        self.raced(now);
        self.drain_all(now);
    }

    /// Whether something may be done ahead of programs from now on.
    pub(crate) fn may_be_ahead(&mut self, now: Instant, may: bool) {
        let Some(accelerator) = &mut self.accelerator else { return };
        accelerator.may_be_ahead(now, &self.poll, may);
        self.raced(now);
        self.drain_all(now);
    }

    fn drain_all(&mut self, now: Instant) {
        crate::driver::Hands::drain(self, now);
    }
}
