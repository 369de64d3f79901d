//! Probes and matched probes.

use treepie_base::{Error, Result};

use crate::backoff::Backoff;
use crate::endpoint::Endpoint;
use crate::matching::Arrival;
use crate::op::{Envelope, OpKind, Select, WaitReason};
use crate::receive::{MatchedUnexpected, envelope};
use crate::slab::OpId;

impl Endpoint {
    /// Nonblocking probe. An error if no matching message can ever arrive, so that no caller probes for ever.
    pub fn iprobe(&mut self, select: Select) -> Result<Option<Envelope>> {
        Ok(self.poll_unexpected(select)?.map(|id| envelope(self.state.unexpected.get(id))))
    }

    /// Nonblocking matched probe: removes the message from the queue. An error if none can ever arrive.
    pub fn improbe(&mut self, select: Select) -> Result<Option<MatchedUnexpected>> {
        let found = self.poll_unexpected(select)?.map(|id| MatchedUnexpected(self.state.unexpected.take(id)));
        self.report_unexpected_bytes();
        Ok(found)
    }

    fn poll_unexpected(&mut self, select: Select) -> Result<Option<OpId>> {
        let key = select.key();
        if let Some(id) = self.state.unexpected.find(key) {
            return Ok(Some(id));
        }
        self.try_progress();
        if let Some(lost) = self.lost_source(key) {
            while self.progress() {}
            return self.state.unexpected.find(key).map(Some).ok_or(Error::PeerLost { rank: lost as usize });
        }
        Ok(self.state.unexpected.find(key))
    }

    /// Blocking probe.
    pub fn probe(&mut self, select: Select) -> Result<Envelope> {
        let id = self.wait_unexpected(select)?;
        Ok(envelope(self.state.unexpected.get(id)))
    }

    /// Blocking matched probe: removes the message from the queue.
    pub fn mprobe(&mut self, select: Select) -> Result<MatchedUnexpected> {
        let id = self.wait_unexpected(select)?;
        let found = MatchedUnexpected(self.state.unexpected.take(id));
        self.report_unexpected_bytes();
        Ok(found)
    }

    fn wait_unexpected(&mut self, select: Select) -> Result<OpId> {
        let key = select.key();
        let mut backoff = Backoff::default();
        loop {
            if let Some(id) = self.state.unexpected.find(key) {
                return Ok(id);
            }
            if self.progress() {
                backoff.reset();
                continue;
            }
            self.check_self_deadlock(key)?;
            self.backoff(&mut backoff, WaitReason::Op(OpKind::Receive, key));
            if let Some(lost) = self.lost_source(key) {
                while self.progress() {}
                return self.state.unexpected.find(key).ok_or(Error::PeerLost { rank: lost as usize });
            }
        }
    }

    /// Calls `visit` with the source and data of each unexpected eager message of a context and tag.
    pub fn for_each_unexpected(&self, context: u32, tag: u64, mut visit: impl FnMut(u32, &[u8])) {
        let unexpected = &self.state.unexpected;
        for id in unexpected.select(|message| message.key.context == context && message.key.tag == tag) {
            let message = unexpected.get(id);
            if let Arrival::Eager { data, .. } = &message.arrival {
                visit(message.key.source, data);
            }
        }
    }
}
