//! Receive gap: a network interface, of a rank or a host, admits one message after the other.

#[derive(Debug)]
pub(super) struct ReceiveGap {
    /// When the last message of each interface was admitted, plus 1; 0 if there was none.
    last: Vec<u64>,
}

impl ReceiveGap {
    pub(super) fn new(interfaces: u32) -> Self {
        Self { last: vec![0; interfaces as usize] }
    }

    /// When a message that arrives now is admitted, at least `interval` after the one before.
    #[inline]
    pub(super) fn admit(&mut self, interface: u32, now: u64, interval: u64) -> u64 {
        let admitted = self.earliest(interface, now, interval);
        self.set_last(interface, admitted);
        admitted
    }

    /// When it could be admitted.
    #[inline]
    pub(super) fn earliest(&self, interface: u32, now: u64, interval: u64) -> u64 {
        let last = self.last[interface as usize];
        if last == 0 { now } else { now.max(last - 1 + interval) }
    }

    #[inline]
    pub(super) fn set_last(&mut self, interface: u32, admitted: u64) {
        self.last[interface as usize] = admitted + 1;
    }

    pub(super) fn memory(&self) -> usize {
        self.last.capacity() * 8
    }
}
