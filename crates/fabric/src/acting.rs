//! What events and records ask for: answers, transfers, and what has waited for room.

use treepie_base::Error;

use crate::core::{Action, Core};
use crate::endpoint::Endpoint;
use crate::engine::{Event, Head, Refused};
use crate::given_up::Why;
use crate::kind::{self, Accept, Body};
use crate::matching::{Arrived, Offer};
use crate::op::{Envelope, State};
use crate::outbox::Item;
use crate::slab::Id;

impl Endpoint {
    pub(crate) fn other_event(core: &mut Core, event: Event<'_>) {
        match event {
            Event::Record { .. } => unreachable!("handled by the caller"),
            Event::Acked { slot } => core.answered(slot),
            Event::BulkReceived { slot, span, tell_sender } => {
                let Some(id) = core.ops.id_at(slot) else { return };
                let op = core.ops.get_mut(id).expect("found");
                op.span = Some(span);
                let State::Moving(moving) = &op.state else { return };
                let (envelope, slot) = (moving.envelope, moving.slot);
                if tell_sender {
                    core.actions.push(Action::Ack { to: envelope.source, slot });
                }
                core.complete(id, envelope);
            }
            Event::BulkSent { slot, span } => {
                if let Some(op) = core.end_answer(slot) {
                    core.ops.get_mut(op).expect("answered sends exist").span = Some(span);
                    core.complete(op, Envelope::default());
                }
            }
            Event::BulkFailed { slot, span, sending } => {
                let id = if sending { core.end_answer(slot) } else { core.ops.id_at(slot) };
                let Some(id) = id else { return };
                let op = core.ops.get_mut(id).expect("found");
                op.span = Some(span);
                let rank = match &op.state {
                    _ if sending => op.key.source,
                    State::Moving(moving) => moving.envelope.source,
                    _ => return,
                };
                core.fail(id, Error::PeerLost { rank: rank as usize });
            }
            Event::Gathered { cell, census } => core.gathered(cell, census),
        }
    }

    /// Does what handling a record has asked for.
    #[cold]
    pub(crate) fn act(&mut self) {
        while let Some(action) = self.core.actions.pop() {
            match action {
                Action::Ack { to, slot } => {
                    if !self.fabric.ack(to, slot) {
                        self.send_short(to, Head { kind: kind::ACK, slot, ..Head::default() }, Body::EMPTY);
                    }
                }
                Action::Send { to, head, body } => self.send_short(to, head, body),
                Action::SendLong { to, head, body } => {
                    if self.core.outbox.holds_for(to) || !self.fabric.try_send(to, head, &body) {
                        self.core.outbox.push(to, Item::Long(head, body));
                    }
                }
                Action::Move { op, from, offer } => self.begin_move(op, from, offer),
                Action::TakePart { to, slot, op, invite } => {
                    let span = self.core.ops.get_mut(op).and_then(|op| op.span.take());
                    if let Some(span) = span
                        && let Err(refused) = self.fabric.bulk_send(to, slot, invite, span)
                    {
                        self.core.end_answer(slot);
                        self.core.refuse_bulk(op, refused, to);
                    }
                }
                Action::Acked { slot } => {
                    let op = self.core.answers.at(slot).and_then(|op| self.core.ops.get_mut(*op));
                    if let Some(op) = op
                        && op.span.is_none()
                    {
                        op.span = self.fabric.bulk_ended(slot);
                    }
                    self.core.answered(slot);
                }
                Action::Arrive { cell, census } => {
                    self.fabric.arrive(cell, census);
                }
                Action::LookWhetherBoardIsClosed => self.look_whether_board_is_closed(),
            }
        }
    }

    /// Sends a record of the protocol, now or when there is room.
    pub(crate) fn send_short(&mut self, to: u32, head: Head, body: Body) {
        if self.core.outbox.holds_for(to) || !self.fabric.try_send(to, head, body.as_slice()) {
            self.core.outbox.push(to, Item::Short(head, body));
        }
    }

    /// Lets the data of an offered message come: by the engine if it can, in records otherwise.
    fn begin_move(&mut self, id: Id, from: u32, offer: Offer) {
        if !self.core.may_move(from, id, offer) {
            return;
        }
        let Some(op) = self.core.ops.get_mut(id) else { return };
        let span = op.span.take().expect("a receive has memory").narrowed(offer.bytes as usize);
        // Engines write by the address.
        assert!(span.is_writable(), "a receive has memory that may be written");
        let invite = match self.fabric.bulk_recv(from, offer.place, id.index, span) {
            Ok(None) => return,
            Ok(invite) => invite,
            Err(Refused { span, error: None }) => {
                self.core.ops.get_mut(id).expect("found above").span = Some(span);
                None
            }
            Err(refused) => {
                self.core.refuse(from, &Arrived::Offered(offer), Why::Unsaid);
                return self.core.refuse_bulk(id, refused, from);
            }
        };
        let accept = Accept { generation: offer.generation, receive: id.index, invite };
        self.send_short(from, Head { kind: kind::ACCEPT, slot: offer.slot, ..Head::default() }, accept.to_body());
    }

    /// Sends what has waited for room, as far as there is room now. Returns whether anything got through.
    #[cold]
    pub(crate) fn flush(&mut self) -> bool {
        let mut any = false;
        for to in self.core.outbox.destinations() {
            let mut queue = self.core.outbox.take(to);
            while let Some(item) = queue.pop_front() {
                let left = match item {
                    Item::Short(head, body) => {
                        (!self.fabric.try_send(to, head, body.as_slice())).then_some(Item::Short(head, body))
                    }
                    Item::Long(head, body) => {
                        (!self.fabric.try_send(to, head, &body)).then_some(Item::Long(head, body))
                    }
                    Item::Message(op) => (!self.dispatch(op)).then_some(Item::Message(op)),
                    Item::Stream { op, receive, from } => match self.stream(to, op, receive, from) {
                        Some((item, true)) => {
                            // Nothing waits for the order of data: let others pass between two pieces.
                            queue.push_back(item);
                            any = true;
                            None
                        }
                        left => left.map(|(item, _)| item),
                    },
                };
                if let Some(item) = left {
                    queue.push_front(item);
                    break;
                }
                any = true;
            }
            self.core.outbox.put_back(to, queue);
        }
        any
    }

    /// Sends the next piece of an accepted message. Returns the rest, and whether this piece got through.
    fn stream(&mut self, to: u32, id: Id, receive: u32, from: usize) -> Option<(Item, bool)> {
        let data = self.core.ops.get(id)?.span.as_ref()?.as_slice();
        let end = data.len().min(from + self.fabric.max_body());
        let head = Head { kind: kind::DATA, slot: receive, ..Head::default() };
        if !self.fabric.try_send(to, head, &data[from..end]) {
            return Some((Item::Stream { op: id, receive, from }, false));
        }
        if end == data.len() {
            self.core.complete(id, Envelope::default());
            return None;
        }
        Some((Item::Stream { op: id, receive, from: end }, true))
    }
}
