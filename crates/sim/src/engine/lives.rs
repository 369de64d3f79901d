//! How simulated ranks end, and when others know.

use treepie_fabric::Life;

use super::world::{Arrival, Doom, Halt, Sent, Wait, World};
use crate::time::{MICROSECOND, Time};

/// Ranks that left in order are noticed together: when nothing else happens, and otherwise so long after the beginning, then
/// after twice that, and so on. Nobody waits for them unless something is wrong, and telling all ranks of each of them would
/// cost the square of their number each time.
pub(super) const NOTICED_AFTER: Time = (1000.0 * MICROSECOND) as Time;

impl World {
    pub(super) fn one_less_on_the_way(&mut self, from: u32) {
        let sender = self.rank(from);
        sender.on_the_way -= 1;
        if sender.on_the_way == 0 && has_failed(sender.life) && sender.life != sender.shown {
            self.show_lives();
        }
    }

    /// A rank dies: its program is unwound where it waits. What is on the way to it is lost, and what has not left it
    /// altogether; the machine may forget both.
    pub(super) fn dies(&mut self, rank: u32) {
        let is_lost = |mail: &super::world::Mail| mail.to == rank || mail.from == rank && mail.leaves;
        let mut lost: Vec<u64> = self.mail.iter().filter(|(_, mail)| is_lost(mail)).map(|(token, _)| *token).collect();
        lost.sort_unstable();
        for token in lost {
            let Some(mail) = self.mail.remove(&token) else { continue };
            if let Sent::Bulk(bulk) = mail.what {
                if mail.to == rank {
                    self.bulk_sent(mail.from, bulk);
                } else {
                    self.bulk_lost(bulk);
                }
            }
            self.one_less_on_the_way(mail.from);
        }
        for _ in 0..std::mem::take(&mut self.rank(rank).acknowledging) {
            self.one_less_on_the_way(rank);
        }
        let own = &self.ranks[rank as usize];
        if own.ended.is_none() && own.doom != Doom::Certain {
            self.doom(rank);
            self.lives_on_as(rank, Life::Dead);
        }
    }

    /// A rank is cut off from all others: its program is unwound as soon as it looks for something.
    pub(super) fn doom(&mut self, rank: u32) {
        self.rank(rank).doom = Doom::Certain;
        self.cut_off(rank);
        self.rouse(rank);
    }

    /// Nothing comes for a rank any more but its own memory, as of transfers that have failed.
    pub(super) fn cut_off(&mut self, rank: u32) {
        let inbox = std::mem::take(&mut self.rank(rank).inbox);
        let failed = |arrival| match arrival {
            Arrival::BulkReceived { slot, span } => Some(Arrival::BulkFailed { slot, span, sending: false }),
            Arrival::BulkSent { slot, span } => Some(Arrival::BulkFailed { slot, span, sending: true }),
            Arrival::BulkFailed { .. } => Some(arrival),
            Arrival::Record { .. } | Arrival::Gathered { .. } | Arrival::Acked { .. } => None,
        };
        self.rank(rank).inbox = inbox.into_iter().filter_map(failed).collect();
        self.rank(rank).lying = 0;
        // Others wait for data of it, too.
        for (whose, slot, span, sending) in self.bulks.withdraw(rank) {
            self.arrives(whose, Arrival::BulkFailed { slot, span, sending });
        }
    }

    /// The data of a transfer will never come.
    fn bulk_lost(&mut self, bulk: u64) {
        if let Some((to, slot, span)) = self.bulks.lost(bulk) {
            self.arrives(to, Arrival::BulkFailed { slot, span, sending: false });
        }
    }

    /// The program of a rank has ended. Handles of it may live on, and still get their memory back.
    pub(super) fn ends(&mut self, rank: u32, failed: bool) {
        self.running -= 1;
        self.cut_off(rank);
        let own = self.rank(rank);
        own.ended = Some(own.time.min(own.dies));
        let failed = failed || has_failed(own.life);
        self.lives_on_as(rank, if failed { Life::Dead } else { Life::Left });
    }

    /// A rank has given its engine up: whatever its program still does, nobody hears of it.
    pub(super) fn leaves(&mut self, rank: u32) {
        self.cut_off(rank);
        self.rank(rank).inbox.clear();
        self.rank(rank).lying = 0;
        let failed = self.ranks[rank as usize].life != Life::Leaving;
        self.lives_on_as(rank, if failed { Life::Dead } else { Life::Left });
    }

    /// What has become of a rank, as others know it.
    pub(super) fn shown(&self, rank: u32) -> Life {
        self.ranks[rank as usize].shown
    }

    /// Something has become of a rank. Others hear of it when all that it has sent has come.
    pub(super) fn lives_on_as(&mut self, rank: u32, life: Life) {
        let before = std::mem::replace(&mut self.rank(rank).life, life);
        if self.halt.is_some() || before == life {
            return;
        }
        if !std::mem::replace(&mut self.rank(rank).is_unshown, true) {
            self.unshown.push(rank);
        }
        if has_failed(life) {
            self.show_lives();
        }
    }

    /// Has those noticed who left in order, if it is time for that.
    pub(super) fn notice(&mut self) {
        let (at, every) = self.notice;
        let now = self.machine.now();
        if now >= at && !self.unshown.is_empty() && self.show_lives() {
            self.notice = (now.saturating_add(2 * every), 2 * every);
        }
    }

    /// Lets all know who has ended, as far as all that they sent has arrived. Returns whether there was anything new.
    pub(super) fn show_lives(&mut self) -> bool {
        let (ranks, changed) = (&mut self.ranks, &mut self.changed);
        let before = changed.len();
        self.unshown.retain(|number| {
            let rank = &mut ranks[*number as usize];
            let shows = rank.on_the_way == 0;
            if shows {
                rank.shown = rank.life;
                rank.is_unshown = false;
                changed.push(*number);
            }
            !shows
        });
        let any = changed.len() > before;
        if any {
            for rank in 0..self.machine.ranks() {
                if self.ranks[rank as usize].wait == Wait::Arrival {
                    self.rouse(rank);
                }
            }
        }
        any
    }

    /// All that are not done end, and may say what they wait for.
    pub(super) fn halts(&mut self, why: Halt) {
        self.halt = Some(why);
        for rank in 0..self.machine.ranks() {
            if self.ranks[rank as usize].ended.is_none() {
                self.rank(rank).doom = Doom::Asked;
                self.rank(rank).waits_for = Some(String::new());
                self.rouse(rank);
            }
        }
    }
}

fn has_failed(life: Life) -> bool {
    matches!(life, Life::Failing | Life::Dead)
}

#[cfg(test)]
mod tests {
    use treepie_topology::Network;

    use super::*;
    use crate::costs::LogGP;
    use crate::engine::Options;
    use crate::machine::Machine;

    #[test]
    fn ranks_that_leave_one_after_the_other_are_told_of_together() {
        const RANKS: u32 = 1000;
        let costs = LogGP { latency: 1.0, overhead: 1.0, gap: 1.0, per_byte: 0.0 };
        let machine = Machine::new(&Network::flat(RANKS), &costs.into()).expect("it is one");
        let mut world = World::new(machine, |_| Time::MAX, &Options::default());
        let (mut shown, mut times) = (0, 0);
        for rank in 0..RANKS {
            world.machine.wake(u64::from(rank + 1) * NOTICED_AFTER / 10, rank, u64::MAX >> 1);
        }
        while let Some(happening) = world.machine.next() {
            world.lives_on_as(happening.rank, Life::Leaving);
            world.notice();
            times += u32::from(world.changed.len() > shown);
            shown = world.changed.len();
        }
        // A hundred milliseconds: after 1, 3, 7, 15, 31 and 63.
        assert_eq!((times, world.unshown.len()), (6, RANKS as usize - 630));
        assert!(world.show_lives() && world.changed.len() == RANKS as usize && !world.show_lives());
    }
}
