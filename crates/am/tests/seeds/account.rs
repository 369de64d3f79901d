//! What all ranks of a simulation have sent and handled, kept outside of it: they run in one thread, so they can share it.
//!
//! Messages have weights. Where messages are combined their weights are added up, so what is handled weighs as much as what
//! was sent. A message that is lost and one that is handled twice hardly weigh the same.
//!
//! Bodies send messages of level 0, and their handlers those of level 1, and so on. Where all messages are delivered at the end
//! of rounds, levels are rounds: nothing of a level is handled before everything of it was sent.

use std::cell::RefCell;

/// What belongs to one epoch, on all ranks together.
#[derive(Clone, Debug, Default)]
struct Ledger {
    sent: u64,
    handled: u64,
    /// Sent and handled of each level.
    levels: Vec<(u64, u64)>,
    /// To the sum.
    added: u64,
    /// Sends so far.
    sends: u64,
    /// The first rank for which it was over.
    over_for: Option<usize>,
}

impl Ledger {
    fn level(&mut self, level: u32) -> &mut (u64, u64) {
        let count = self.levels.len().max(level as usize + 1);
        self.levels.resize(count, (0, 0));
        &mut self.levels[level as usize]
    }
}

/// Ledgers of all epochs, and what is wrong in them.
#[derive(Debug, Default)]
pub(crate) struct Account {
    ledgers: RefCell<Vec<Ledger>>,
    /// Levels are rounds.
    in_rounds: bool,
    wrong: RefCell<Option<String>>,
}

impl Account {
    pub(crate) fn new(epochs: u32, in_rounds: bool) -> Self {
        Self { ledgers: RefCell::new(vec![Ledger::default(); epochs as usize]), in_rounds, wrong: RefCell::default() }
    }

    /// Notes what is wrong; the first counts.
    pub(crate) fn wrong(&self, what: impl FnOnce() -> String) {
        self.wrong.borrow_mut().get_or_insert_with(what);
    }

    /// What was wrong first.
    pub(crate) fn first_wrong(&self) -> Option<String> {
        self.wrong.borrow().clone()
    }

    fn change(&self, epoch: u32, change: impl FnOnce(&mut Ledger)) {
        match self.ledgers.borrow_mut().get_mut(epoch as usize) {
            Some(ledger) => change(ledger),
            None => self.wrong(|| format!("there is no epoch {epoch}")),
        }
    }

    /// How many messages were sent in an epoch so far.
    pub(crate) fn sends(&self, epoch: u32) -> u64 {
        self.ledgers.borrow()[epoch as usize].sends
    }

    /// A message is sent.
    pub(crate) fn send(&self, epoch: u32, level: u32, weight: u64) {
        self.change(epoch, |ledger| {
            ledger.sent += weight;
            let (sent, handled) = ledger.level(level);
            *sent += weight;
            if self.in_rounds && *handled > 0 {
                self.wrong(|| format!("epoch {epoch}: sent in round {level}, which is over for others"));
            }
            ledger.sends += 1;
            if let Some(rank) = ledger.over_for {
                self.wrong(|| format!("epoch {epoch} was over for rank {rank} before all was sent"));
            }
        });
    }

    /// A message of an epoch is handled on a rank, which is in the epoch `here`.
    pub(crate) fn handle(&self, epoch: u32, level: u32, weight: u64, rank: usize, here: u32) {
        if epoch != here {
            self.wrong(|| format!("rank {rank} handles a message of epoch {epoch} in epoch {here}"));
        }
        self.change(epoch, |ledger| {
            ledger.handled += weight;
            ledger.level(level).1 += weight;
            let before = &ledger.levels[..level as usize];
            if self.in_rounds && before.iter().any(|(sent, handled)| sent != handled) {
                self.wrong(|| format!("epoch {epoch}: rank {rank} is ahead, in round {level}"));
            }
        });
    }

    /// Something is added to the sum that the epoch returns.
    pub(crate) fn add(&self, epoch: u32, value: u64) {
        self.change(epoch, |ledger| ledger.added = ledger.added.wrapping_add(value));
    }

    /// An epoch is over for a rank: nothing may be on its way anywhere.
    pub(crate) fn over(&self, epoch: u32, rank: usize, sum: u64) {
        self.change(epoch, |ledger| {
            let Ledger { sent, handled, added, .. } = *ledger;
            ledger.over_for.get_or_insert(rank);
            if sent != handled {
                self.wrong(|| format!("epoch {epoch} is over for rank {rank}: sent {sent}, and handled {handled}"));
            } else if sum != added {
                self.wrong(|| format!("epoch {epoch}: rank {rank} has the sum {sum}, and not {added}"));
            }
        });
    }
}
