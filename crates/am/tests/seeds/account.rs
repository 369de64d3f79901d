//! Global accounting of sent and handled messages: all ranks of a simulation run in one thread, so they can share it.
//!
//! Messages have random weights. Combining adds weights, so the handled weight equals the sent weight. A lost message
//! and one handled twice hardly have the same weight.
//!
//! Bodies send messages of level 0, their handlers those of level 1, and so on. If all types are bulk-synchronous,
//! levels are rounds: no message of a level is handled before all of it were sent.

use std::cell::RefCell;

/// The account of one epoch over all ranks.
#[derive(Clone, Debug, Default)]
struct Ledger {
    sent: u64,
    handled: u64,
    /// Sent and handled weight by level.
    levels: Vec<(u64, u64)>,
    /// Added to the sum of the epoch.
    added: u64,
    /// Number of sends.
    sends: u64,
    /// The first rank for which the epoch was over.
    over_for: Option<usize>,
}

impl Ledger {
    fn level(&mut self, level: u32) -> &mut (u64, u64) {
        let count = self.levels.len().max(level as usize + 1);
        self.levels.resize(count, (0, 0));
        &mut self.levels[level as usize]
    }
}

/// The ledgers of all epochs, and the first error.
#[derive(Debug, Default)]
pub(crate) struct Account {
    ledgers: RefCell<Vec<Ledger>>,
    /// Levels are rounds.
    in_rounds: bool,
    error: RefCell<Option<String>>,
}

impl Account {
    pub(crate) fn new(epochs: u32, in_rounds: bool) -> Self {
        Self { ledgers: RefCell::new(vec![Ledger::default(); epochs as usize]), in_rounds, error: RefCell::default() }
    }

    /// Records an error; only the first counts.
    pub(crate) fn fail(&self, what: impl FnOnce() -> String) {
        self.error.borrow_mut().get_or_insert_with(what);
    }

    /// The first error.
    pub(crate) fn first_error(&self) -> Option<String> {
        self.error.borrow().clone()
    }

    fn change(&self, epoch: u32, change: impl FnOnce(&mut Ledger)) {
        match self.ledgers.borrow_mut().get_mut(epoch as usize) {
            Some(ledger) => change(ledger),
            None => self.fail(|| format!("there is no epoch {epoch}")),
        }
    }

    /// The number of sends in an epoch so far.
    pub(crate) fn sends(&self, epoch: u32) -> u64 {
        self.ledgers.borrow()[epoch as usize].sends
    }

    /// Records a send.
    pub(crate) fn send(&self, epoch: u32, level: u32, weight: u64) {
        self.change(epoch, |ledger| {
            ledger.sent += weight;
            let (sent, handled) = ledger.level(level);
            *sent += weight;
            if self.in_rounds && *handled > 0 {
                self.fail(|| format!("epoch {epoch}: sent in round {level}, which is over for other ranks"));
            }
            ledger.sends += 1;
            if let Some(rank) = ledger.over_for {
                self.fail(|| format!("epoch {epoch} was over for rank {rank} before all was sent"));
            }
        });
    }

    /// Records a message of `epoch` handled on a rank that is in the epoch `here`.
    pub(crate) fn handle(&self, epoch: u32, level: u32, weight: u64, rank: usize, here: u32) {
        if epoch != here {
            self.fail(|| format!("rank {rank} handles a message of epoch {epoch} in epoch {here}"));
        }
        self.change(epoch, |ledger| {
            ledger.handled += weight;
            ledger.level(level).1 += weight;
            let before = &ledger.levels[..level as usize];
            if self.in_rounds && before.iter().any(|(sent, handled)| sent != handled) {
                self.fail(|| format!("epoch {epoch}: rank {rank} is ahead, in round {level}"));
            }
        });
    }

    /// Records a value added to the sum of the epoch.
    pub(crate) fn add(&self, epoch: u32, value: u64) {
        self.change(epoch, |ledger| ledger.added = ledger.added.wrapping_add(value));
    }

    /// Records the end of an epoch on a rank: no message may be in flight.
    pub(crate) fn over(&self, epoch: u32, rank: usize, sum: u64) {
        self.change(epoch, |ledger| {
            let Ledger { sent, handled, added, .. } = *ledger;
            ledger.over_for.get_or_insert(rank);
            if sent != handled {
                self.fail(|| format!("epoch {epoch} is over for rank {rank}: sent {sent}, and handled {handled}"));
            } else if sum != added {
                self.fail(|| format!("epoch {epoch}: rank {rank} has the sum {sum}, and not {added}"));
            }
        });
    }
}
