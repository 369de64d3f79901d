//! How simulated ranks end, and when others learn of it.

use treepie_fabric::Liveness;

use super::world::{HaltReason, InboxEvent, KillState, Payload, SimWorld, WaitState};

impl SimWorld {
    pub(super) fn complete_in_flight(&mut self, from: u32) {
        let sender = self.rank(from);
        sender.in_flight -= 1;
        if sender.in_flight == 0 && has_failed(sender.life) && sender.life != sender.published_life {
            self.publish_lives();
        }
    }

    /// Fails a rank: its program is unwound where it waits. Transfers to it are lost, and those that have not left it
    /// completely; the machine may drop both.
    pub(super) fn on_failure(&mut self, rank: u32) {
        let is_lost = |transfer: &super::world::InFlightTransfer| {
            transfer.to == rank || transfer.from == rank && transfer.is_injecting
        };
        let mut lost: Vec<u64> =
            self.in_flight.iter().filter(|(_, transfer)| is_lost(transfer)).map(|(token, _)| *token).collect();
        lost.sort_unstable();
        for token in lost {
            let Some(transfer) = self.in_flight.remove(&token) else { continue };
            if let Payload::Bulk(bulk) = transfer.payload {
                if transfer.to == rank {
                    self.complete_bulk_send(transfer.from, bulk);
                } else {
                    self.fail_bulk(bulk);
                }
            }
            self.complete_in_flight(transfer.from);
        }
        for _ in 0..std::mem::take(&mut self.rank(rank).acks_in_flight) {
            self.complete_in_flight(rank);
        }
        let state = &self.ranks[rank as usize];
        if state.ended.is_none() && state.kill_state != KillState::Killed {
            self.kill(rank);
            self.set_life(rank, Liveness::Failed);
        }
    }

    /// Kills a rank: it is disconnected, and its program is unwound when it next polls.
    pub(super) fn kill(&mut self, rank: u32) {
        self.rank(rank).kill_state = KillState::Killed;
        self.disconnect(rank);
        self.resume(rank);
    }

    /// Disconnects a rank: nothing arrives for it any more except its own memory, as of failed transfers.
    pub(super) fn disconnect(&mut self, rank: u32) {
        let inbox = std::mem::take(&mut self.rank(rank).inbox);
        let failed = |event| match event {
            InboxEvent::BulkReceived { slot, span } => Some(InboxEvent::BulkFailed { slot, span, sending: false }),
            InboxEvent::BulkSent { slot, span } => Some(InboxEvent::BulkFailed { slot, span, sending: true }),
            InboxEvent::BulkFailed { .. } => Some(event),
            InboxEvent::Record { .. } | InboxEvent::BarrierDone { .. } | InboxEvent::Acked { .. } => None,
        };
        self.rank(rank).inbox = inbox.into_iter().filter_map(failed).collect();
        self.rank(rank).unread_bytes = 0;
        // Peers wait for its data, too.
        for (owner, slot, span, sending) in self.bulk_transfers.cancel_rank(rank) {
            self.push_inbox(owner, InboxEvent::BulkFailed { slot, span, sending });
        }
    }

    /// Fails a transfer whose data will never arrive.
    fn fail_bulk(&mut self, bulk: u64) {
        if let Some((to, slot, span)) = self.bulk_transfers.fail(bulk) {
            self.push_inbox(to, InboxEvent::BulkFailed { slot, span, sending: false });
        }
    }

    /// Ends a rank whose program has ended. Its handles may outlive it, and still get their memory back.
    pub(super) fn on_exit(&mut self, rank: u32, failed: bool) {
        self.running -= 1;
        self.disconnect(rank);
        let state = self.rank(rank);
        state.ended = Some(state.time.min(state.failure_time));
        let failed = failed || has_failed(state.life);
        self.set_life(rank, if failed { Liveness::Failed } else { Liveness::Finalized });
    }

    /// Ends a rank that has dropped its fabric: whatever its program still does, no peer sees it.
    pub(super) fn on_fabric_drop(&mut self, rank: u32) {
        self.disconnect(rank);
        self.rank(rank).inbox.clear();
        self.rank(rank).unread_bytes = 0;
        let failed = self.ranks[rank as usize].life != Liveness::Finalizing;
        self.set_life(rank, if failed { Liveness::Failed } else { Liveness::Finalized });
    }

    /// The liveness of a rank as its peers know it.
    pub(super) fn published_life(&self, rank: u32) -> Liveness {
        self.ranks[rank as usize].published_life
    }

    /// Sets the liveness of a rank. Peers learn of it when all that it sent has arrived.
    pub(super) fn set_life(&mut self, rank: u32, life: Liveness) {
        let before = std::mem::replace(&mut self.rank(rank).life, life);
        if self.halt.is_some() || before == life {
            return;
        }
        if !std::mem::replace(&mut self.rank(rank).has_unpublished_life, true) {
            self.unpublished.push(rank);
        }
        if has_failed(life) {
            self.publish_lives();
        }
    }

    /// Publishes finalized ranks, if it is time for that.
    pub(super) fn publish_departures(&mut self) {
        let (at, every) = self.next_publish;
        let now = self.machine.now();
        if now >= at && !self.unpublished.is_empty() && self.publish_lives() {
            self.next_publish = (now.saturating_add(2 * every), 2 * every);
        }
    }

    /// Publishes the liveness of ranks whose messages have all arrived. Returns whether there was any news.
    pub(super) fn publish_lives(&mut self) -> bool {
        let (ranks, life_changes) = (&mut self.ranks, &mut self.life_changes);
        let before = life_changes.len();
        self.unpublished.retain(|rank_id| {
            let rank = &mut ranks[*rank_id as usize];
            let is_complete = rank.in_flight == 0;
            if is_complete {
                rank.published_life = rank.life;
                rank.has_unpublished_life = false;
                life_changes.push(*rank_id);
            }
            !is_complete
        });
        let has_news = life_changes.len() > before;
        if has_news {
            for rank in 0..self.machine.ranks() {
                if self.ranks[rank as usize].wait == WaitState::Arrival {
                    self.resume(rank);
                }
            }
        }
        has_news
    }

    /// Halts the run: all unfinished ranks end, and may report what they wait for.
    pub(super) fn halt_all(&mut self, reason: HaltReason) {
        self.halt = Some(reason);
        for rank in 0..self.machine.ranks() {
            if self.ranks[rank as usize].ended.is_none() {
                self.rank(rank).kill_state = KillState::Requested;
                self.rank(rank).waits_for = Some(String::new());
                self.resume(rank);
            }
        }
    }
}

fn has_failed(life: Liveness) -> bool {
    matches!(life, Liveness::Failing | Liveness::Failed)
}

#[cfg(test)]
mod tests {
    use treepie_topology::Network;

    use super::*;
    use crate::costs::LogGP;
    use crate::engine::Options;
    use crate::engine::world::PUBLISH_INTERVAL;
    use crate::machine::Machine;
    use crate::time::Time;

    #[test]
    fn finalized_ranks_are_published_together() {
        const RANKS: u32 = 1000;
        let costs = LogGP { latency: 1.0, overhead: 1.0, gap: 1.0, per_byte: 0.0 };
        let machine = Machine::new(&Network::flat(RANKS), &costs.into()).expect("it is one");
        let mut world = SimWorld::new(machine, |_| Time::MAX, &Options::default());
        let (mut published, mut times) = (0, 0);
        for rank in 0..RANKS {
            world.machine.schedule_wakeup(u64::from(rank + 1) * PUBLISH_INTERVAL / 10, rank, u64::MAX >> 1);
        }
        while let Some(event) = world.machine.next() {
            world.set_life(event.rank, Liveness::Finalizing);
            world.publish_departures();
            times += u32::from(world.life_changes.len() > published);
            published = world.life_changes.len();
        }
        // Within 100 ms: after 1, 3, 7, 15, 31 and 63.
        assert_eq!((times, world.unpublished.len()), (6, RANKS as usize - 630));
        assert!(world.publish_lives() && world.life_changes.len() == RANKS as usize && !world.publish_lives());
    }
}
