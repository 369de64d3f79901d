//! Receive gap: a rank's network interface admits one message after the other.

#[derive(Debug)]
pub(super) struct ReceiveGap {
    /// When the last message of each rank was admitted, plus 1; 0 if there was none.
    last: Vec<u64>,
}

impl ReceiveGap {
    pub(super) fn new(ranks: u32) -> Self {
        Self { last: vec![0; ranks as usize] }
    }

    /// When a message that arrives now is admitted, at least `interval` after the one before.
    #[inline]
    pub(super) fn admit(&mut self, rank: u32, now: u64, interval: u64) -> u64 {
        let last = &mut self.last[rank as usize];
        let admitted = if *last == 0 { now } else { now.max(*last - 1 + interval) };
        *last = admitted + 1;
        admitted
    }

    pub(super) fn memory(&self) -> usize {
        self.last.capacity() * 8
    }
}
