//! Requests of this rank, and its replies to those of others.

use treepie_base::{Error, Result};

use super::GetRequest;
use crate::endpoint::Endpoint;
use crate::endpoint_state::{Action, EndpointState};
use crate::engine::{Liveness, RecordHeader};
use crate::wire::{self, decode_words};

impl EndpointState {
    pub(crate) fn handle_window_record(&mut self, from: u32, head: RecordHeader, body: &[u8]) {
        let reply = |kind| RecordHeader { kind, context: head.context, slot: head.slot, ..RecordHeader::default() };
        match head.record_kind() {
            wire::WINDOW_PUT => {
                let [at] = decode_words(body);
                self.windows.write(head.context, at, &body[8..]);
                let head = reply(wire::WINDOW_PUT_ACK);
                self.actions.push(Action::Send { to: from, head, body: wire::Body::EMPTY });
            }
            wire::WINDOW_GET => {
                let [at, len] = decode_words(body);
                let request = GetRequest { from, window: head.context, number: head.slot, at, len: len as usize };
                // Read-only windows are created without a barrier. A finalizing rank creates no more of them.
                if self.windows.parts.contains_key(&head.context) || self.finalizing {
                    self.reply_to_get(&request);
                } else {
                    self.windows.deferred_gets.push(request);
                }
            }
            wire::WINDOW_FETCH_ADD => {
                let [at, value] = decode_words(body);
                let old = self.windows.fetch_add(head.context, at, value);
                self.actions.push(Action::Send {
                    to: from,
                    head: reply(wire::WINDOW_REPLY),
                    body: wire::encode_words([old]),
                });
            }
            wire::WINDOW_PUT_ACK => self.windows.unacked_puts -= 1,
            wire::WINDOW_REPLY if head.slot == self.windows.request => self.windows.reply = Some(body.to_vec()),
            wire::WINDOW_REPLY => {}
            other => unreachable!("a record of kind {other}"),
        }
    }

    /// Replies to gets from windows that this rank will never create.
    pub(crate) fn reject_deferred_gets(&mut self) {
        let deferred = std::mem::take(&mut self.windows.deferred_gets);
        deferred.iter().for_each(|request| self.reply_to_get(request));
    }

    /// Replies with the data, or with an empty body if there is no such window.
    fn reply_to_get(&mut self, request: &GetRequest) {
        let GetRequest { from, window, number, at, len } = *request;
        let exists = self.windows.parts.contains_key(&window);
        let body = if exists { self.windows.read(window, at, len).to_vec() } else { Vec::new() };
        let head = RecordHeader { kind: wire::WINDOW_REPLY, context: window, slot: number, ..RecordHeader::default() };
        self.actions.push(Action::SendLong { to: from, head, body });
    }
}

/// Windows over records. Ranks are ranks of the world; the caller keeps accesses inside the target's part.
impl Endpoint {
    /// Creates this rank's part of a window, initially zero. Others may access it once all ranks have created theirs.
    pub fn window_create(&mut self, window: u32, bytes: usize) -> Result<()> {
        let part = treepie_base::memory::zeroed(bytes, "a rank's part of a window")?;
        self.state.windows.parts.insert(window, part);
        Ok(())
    }

    /// Creates this rank's part of a read-only window. A get before that waits for it. Others may read it until it is
    /// freed, even while this rank finalizes, until they finalize as well.
    pub fn window_create_read_only(&mut self, window: u32, part: Vec<u8>) {
        let windows = &mut self.state.windows;
        windows.parts.insert(window, part);
        windows.read_only.insert(window);
        let deferred: Vec<GetRequest> =
            windows.deferred_gets.extract_if(.., |request| request.window == window).collect();
        deferred.iter().for_each(|request| self.state.reply_to_get(request));
        self.run_actions();
    }

    /// Frees this rank's part, when no rank uses it any more.
    pub fn window_free(&mut self, window: u32) {
        self.state.windows.parts.remove(&window);
        self.state.windows.read_only.remove(&window);
    }

    /// Puts data. Complete at the target after the next [`window_flush`](Self::window_flush).
    pub fn window_put(&mut self, window: u32, rank: u32, at: u64, data: &[u8]) -> Result<()> {
        if rank == self.state.rank {
            self.state.windows.write(window, at, data);
            return Ok(());
        }
        let piece = self.fabric.max_body() - 8;
        let mut record = Vec::with_capacity(8 + piece.min(data.len()));
        for (i, data) in data.chunks(piece).enumerate() {
            record.clear();
            record.extend_from_slice(&(at + (i * piece) as u64).to_ne_bytes());
            record.extend_from_slice(data);
            self.window_send(wire::WINDOW_PUT, window, rank, &record)?;
            self.state.windows.unacked_puts += 1;
        }
        Ok(())
    }

    /// Gets data; blocking.
    pub fn window_get(&mut self, window: u32, rank: u32, at: u64, into: &mut [u8]) -> Result<()> {
        if rank == self.state.rank {
            into.copy_from_slice(self.state.windows.read(window, at, into.len()));
            return Ok(());
        }
        let piece = self.fabric.max_body();
        for (i, into) in into.chunks_mut(piece).enumerate() {
            let request = wire::encode_words([at + (i * piece) as u64, into.len() as u64]);
            self.window_request(wire::WINDOW_GET, window, rank, request.as_slice())?;
            let reply = self.window_reply(rank)?;
            if reply.len() != into.len() {
                return Err(Error::PeerLost { rank: rank as usize });
            }
            into.copy_from_slice(&reply);
        }
        Ok(())
    }

    /// Atomic fetch-and-add on a word: returns its previous value.
    pub fn window_fetch_add(&mut self, window: u32, rank: u32, at: u64, value: u64) -> Result<u64> {
        if rank == self.state.rank {
            return Ok(self.state.windows.fetch_add(window, at, value));
        }
        self.window_request(wire::WINDOW_FETCH_ADD, window, rank, wire::encode_words([at, value]).as_slice())?;
        let [old] = decode_words(&self.window_reply(rank)?);
        Ok(old)
    }

    /// Waits until all puts of this rank are complete at their targets.
    pub fn window_flush(&mut self) -> Result<()> {
        self.window_wait(None, |endpoint| (endpoint.state.windows.unacked_puts == 0).then_some(()))
    }

    fn window_request(&mut self, kind: u32, window: u32, rank: u32, body: &[u8]) -> Result<()> {
        let windows = &mut self.state.windows;
        windows.request = windows.request.wrapping_add(1);
        windows.reply = None;
        self.window_send(kind, window, rank, body)
    }

    fn window_send(&mut self, kind: u32, window: u32, rank: u32, body: &[u8]) -> Result<()> {
        let head = RecordHeader { kind, context: window, slot: self.state.windows.request, ..RecordHeader::default() };
        self.window_wait(Some(rank), |endpoint| {
            (!endpoint.state.send_queue.has_queued(rank) && endpoint.fabric.try_send(rank, head, body)).then_some(())
        })
    }

    fn window_reply(&mut self, rank: u32) -> Result<Vec<u8>> {
        self.window_wait(Some(rank), |endpoint| endpoint.state.windows.reply.take())
    }

    fn window_wait<T>(&mut self, rank: Option<u32>, mut ready: impl FnMut(&mut Self) -> Option<T>) -> Result<T> {
        self.wait_without_tasks("an access to a window", |endpoint| {
            if let Some(value) = ready(endpoint) {
                return Some(Ok(value));
            }
            // A finalizing rank still replies.
            let liveness = &endpoint.state.liveness;
            let has_terminated = |rank: &u32| !matches!(liveness.of(*rank), Liveness::Alive | Liveness::Finalizing);
            let lost = rank.map_or(liveness.first_lost(), |rank| Some(rank).filter(has_terminated))?;
            // Replies that it sent before it terminated count.
            endpoint.drain();
            Some(ready(endpoint).ok_or(Error::PeerLost { rank: lost as usize }))
        })
    }
}
