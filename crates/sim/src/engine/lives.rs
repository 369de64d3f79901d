//! How simulated ranks end, and when others know.

use treepie_fabric::Life;

use super::world::{Arrival, Doom, NOTICE, Sent, Wait, World};
use crate::time::{MICROSECOND, Time};

/// Ranks that left in order are noticed together, so long after the first of them. Nobody waits for them unless something
/// is wrong, and telling all ranks of each of them would cost the square of their number.
const NOTICED_AFTER: Time = (1000.0 * MICROSECOND) as Time;

impl World {
    pub(super) fn one_less_on_the_way(&mut self, from: u32) {
        let sender = self.rank(from);
        sender.on_the_way -= 1;
        if sender.on_the_way == 0 && has_failed(sender.life) && sender.life != sender.shown {
            self.show_lives();
        }
    }

    /// A rank dies: its program is unwound where it waits.
    pub(super) fn dies(&mut self, rank: u32) {
        let to_it = self.mail.iter().filter(|(_, mail)| mail.to == rank);
        let mut lost: Vec<u64> = to_it.map(|(token, _)| *token).collect();
        lost.sort_unstable();
        for token in lost {
            let Some(mail) = self.mail.remove(&token) else { continue };
            if let Sent::Bulk(bulk) = mail.what {
                self.bulk_sent(mail.from, bulk);
            }
            self.one_less_on_the_way(mail.from);
        }
        if self.ranks[rank as usize].ended.is_none() {
            self.doom(rank);
            self.lives_on_as(rank, Life::Dead);
        }
    }

    /// A rank is cut off from all others: its program is unwound as soon as it looks for something.
    pub(super) fn doom(&mut self, rank: u32) {
        self.rank(rank).doom = Doom::Certain;
        self.rank(rank).inbox.clear();
        self.withdraw(rank);
        self.rouse(rank);
    }

    /// Gives a rank its memory back that the world has, and tells those who wait for data of it.
    fn withdraw(&mut self, rank: u32) {
        for (whose, slot, span, sending) in self.bulks.withdraw(rank) {
            self.arrives(whose, Arrival::BulkFailed { slot, span, sending });
        }
    }

    /// The program of a rank has ended.
    pub(super) fn ends(&mut self, rank: u32, failed: bool) {
        self.running -= 1;
        let own = self.rank(rank);
        own.ended = Some(own.time.min(own.dies));
        own.inbox.clear();
        self.withdraw(rank);
        let failed = failed || has_failed(self.ranks[rank as usize].life);
        self.lives_on_as(rank, if failed { Life::Dead } else { Life::Left });
    }

    /// A rank has given its engine up: whatever its program still does, nobody hears of it.
    pub(super) fn leaves(&mut self, rank: u32) {
        self.rank(rank).inbox.clear();
        self.withdraw(rank);
        self.rank(rank).inbox.clear();
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
        if self.stuck || before == life {
            return;
        }
        if !self.unshown.contains(&rank) {
            self.unshown.push(rank);
        }
        if has_failed(life) {
            self.show_lives();
        } else {
            self.have_noticed();
        }
    }

    fn have_noticed(&mut self) {
        if self.notice_comes {
            return;
        }
        // The machine wakes no rank that has died.
        let now = self.machine.now();
        let lasting = self.ranks.iter().position(|rank| rank.dies > now + NOTICED_AFTER);
        if let Some(rank) = lasting {
            self.notice_comes = true;
            self.machine.wake(now + NOTICED_AFTER, rank as u32, NOTICE);
        }
    }

    /// Lets all know who has ended, as far as all that they sent has arrived. Returns whether there was anything new.
    pub(super) fn show_lives(&mut self) -> bool {
        let ranks = &mut self.ranks;
        let before = self.unshown.len();
        self.unshown.retain(|rank| {
            let rank = &mut ranks[*rank as usize];
            let shows = rank.on_the_way == 0;
            if shows {
                rank.shown = rank.life;
            }
            !shows
        });
        let any = self.unshown.len() < before;
        if !self.unshown.is_empty() {
            self.have_noticed();
        }
        if any {
            self.news = self.news.wrapping_add(1);
            for rank in 0..self.machine.ranks() {
                if self.ranks[rank as usize].wait == Wait::Arrival {
                    self.rouse(rank);
                }
            }
        }
        any
    }

    /// Nothing will happen any more, and not all are done: those that wait end.
    pub(super) fn gets_stuck(&mut self) {
        self.stuck = true;
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
