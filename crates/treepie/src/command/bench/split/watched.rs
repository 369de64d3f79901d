//! A split in the simulator, with the times at which its phases end.

use std::time::Duration;

use treepie::Result;
use treepie_base::Bytes;
use treepie_comm::split::{Outcome, Phase, Splitting};
use treepie_fabric::{Needs, Reactor, Transmit};

/// A split that is watched. A phase ends when its last message has come and what is computed of it is over; the simulator
/// charges that after the message was handed in.
pub(super) struct Watched {
    splitting: Splitting,
    /// Microseconds of an entry that is moved or looked at.
    entry: f64,
    ends: [Option<f64>; Phase::ALL.len()],
    work: [u64; Phase::ALL.len()],
}

impl Watched {
    pub(super) fn new(splitting: Splitting, entry: f64) -> Self {
        let mut this = Self { splitting, entry, ends: Default::default(), work: Default::default() };
        this.look(0.0);
        this
    }

    fn look(&mut self, mut now: f64) {
        let phases = self.splitting.spent().iter().zip(self.ends.iter_mut().zip(&mut self.work));
        for (spent, (end, work)) in phases {
            now += (spent.work - *work) as f64 * self.entry;
            *work = spent.work;
            if spent.until.is_some() {
                end.get_or_insert(now);
            }
        }
    }

    /// The split itself.
    pub(super) fn splitting(&self) -> &Splitting {
        &self.splitting
    }

    /// When each phase was over, in microseconds.
    pub(super) fn ends(&self) -> [f64; Phase::ALL.len()] {
        self.ends.map(|end| end.unwrap_or(0.0))
    }

    pub(super) fn finish(self) -> Outcome {
        self.splitting.finish()
    }
}

impl Reactor for Watched {
    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.splitting.poll_transmit()
    }

    fn on_message(&mut self, now: Duration, from: u32, tag: u32, bytes: Bytes) -> Result<()> {
        let taken = self.splitting.on_message(now, from, tag, bytes);
        self.look(now.as_secs_f64() * 1e6);
        taken
    }

    fn needs(&self, rank: u32) -> Needs {
        self.splitting.needs(rank)
    }

    fn is_done(&self) -> bool {
        self.splitting.is_done()
    }

    fn take_work(&mut self) -> u64 {
        self.splitting.take_work()
    }
}
