//! Whether what a link takes has drifted away from what is predicted.

/// Measured and predicted times that differ by less than this factor are alike.
const THRESHOLD: f64 = 1.5;

/// A drift is that of this number of calls in a row.
const CALLS: usize = 3;

/// The last calls that measured a link: what they took, relative to the prediction.
#[derive(Clone, Debug, Default)]
pub(super) struct DriftDetector {
    ratios: [f64; CALLS],
    /// The number of calls in a row that drifted to the same side.
    calls: usize,
}

impl DriftDetector {
    /// Adds a call. Returns the median of the last calls if all of them took longer, or all of them less long, than
    /// predicted; the next answer needs `CALLS` more.
    pub(super) fn add(&mut self, ratio: f64) -> Option<f64> {
        let side = |ratio: f64| (ratio >= THRESHOLD, ratio <= 1.0 / THRESHOLD);
        if side(ratio) == (false, false) {
            self.calls = 0;
            return None;
        }
        if self.calls > 0 && side(self.ratios[self.calls - 1]) != side(ratio) {
            self.calls = 0;
        }
        self.ratios[self.calls] = ratio;
        self.calls += 1;
        if self.calls < CALLS {
            return None;
        }
        self.calls = 0;
        self.ratios.sort_by(f64::total_cmp);
        Some(self.ratios[CALLS / 2])
    }

    /// Forgets all calls: the prediction is another.
    pub(super) fn reset(&mut self) {
        self.calls = 0;
    }
}

/// Sends that take less than this part of the link's time have not waited for the link.
const AT_ONCE: f64 = 1.0 / 16.0;

/// How long a link was busy in a call, and how long that was predicted to be. Times are microseconds.
///
/// Transfers that overlap share the link, so it is busy from the beginning of the first to the end of the last. An
/// eager message has no beginning: it waits for room among those before it. So the first one that has waited begins
/// the time, and those that follow take as long as the link does.
#[derive(Clone, Debug, Default)]
pub(super) struct BusyTime {
    period: Option<BusyPeriod>,
    busy: f64,
    expected: f64,
}

#[derive(Clone, Copy, Debug)]
struct BusyPeriod {
    start: f64,
    end: f64,
    /// Of the messages on the link.
    expected: f64,
    /// What the sender's port had sent at the start, and at the end.
    port: (f64, f64),
}

/// A message over a link that has waited.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkMessage {
    /// Since when it has waited.
    pub(super) since: f64,
    /// Until when.
    pub(super) until: f64,
    /// The predicted time of the link.
    pub(super) expected: f64,
    /// What the sender's port had sent, in its time, when the message was issued, and when it was complete.
    pub(super) port: (f64, f64),
}

impl BusyTime {
    /// The engine has transferred a message.
    pub(super) fn add_transfer(&mut self, message: LinkMessage) {
        if !self.extend(message) {
            let LinkMessage { since, until, expected, port } = message;
            self.period = Some(BusyPeriod { start: since, end: until, expected, port });
        }
    }

    /// An eager message has found room on the link.
    pub(super) fn add_queued(&mut self, message: LinkMessage) {
        let LinkMessage { since, until, expected, port } = message;
        let has_waited = until - since >= AT_ONCE * expected;
        if !self.extend(message) && has_waited {
            self.period = Some(BusyPeriod { start: until, end: until, expected: 0.0, port: (port.1, port.1) });
        }
    }

    /// Whether the message has waited since the last one or before; if not, the period is over.
    fn extend(&mut self, LinkMessage { since, until, expected, port }: LinkMessage) -> bool {
        let Some(period) = self.period.as_mut().filter(|period| since <= period.end) else {
            self.close();
            return false;
        };
        period.end = period.end.max(until);
        period.expected += expected;
        period.port.1 = period.port.1.max(port.1);
        true
    }

    /// A message took the link while others waited for it.
    pub(super) fn add_expected(&mut self, expected: f64) {
        if let Some(period) = &mut self.period {
            period.expected += expected;
        }
    }

    fn close(&mut self) {
        let Some(BusyPeriod { start, end, expected, port }) = self.period.take() else { return };
        // The sender may have been slower than the link.
        let expected = expected.max(port.1 - port.0);
        if end - start >= AT_ONCE * expected {
            self.busy += end - start;
            self.expected += expected;
        }
    }

    /// The measured time relative to the predicted one, if there was enough to measure. Begins anew.
    ///
    /// The link may have been busy with messages of other ranks, too, for `others` at most as it is predicted, or not
    /// at all: of the ratios that are possible it is the one nearest to 1.
    pub(super) fn take_ratio(&mut self, at_least: f64, others: f64) -> Option<f64> {
        self.close();
        let Self { busy, expected, .. } = std::mem::take(self);
        (expected >= at_least).then(|| 1.0_f64.clamp(busy / (expected + others), busy / expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_calls_in_a_row_are_a_drift() {
        let mut detector = DriftDetector::default();
        let added = [4.0, 3.0, 1.0, 4.2, 3.9, 0.2, 4.1, 3.8, 4.3, 4.0].map(|ratio| detector.add(ratio));
        assert_eq!(added, [None, None, None, None, None, None, None, None, Some(4.1), None]);
        detector.reset();
        assert_eq!([0.3, 0.25, 0.2].map(|ratio| detector.add(ratio)), [None, None, Some(0.25)]);
        assert!((0..100).all(|call| detector.add([0.7, 1.0, 1.4][call % 3]).is_none()));
    }

    fn message(since: f64, until: f64) -> LinkMessage {
        LinkMessage { since, until, expected: 10.0, port: (0.0, 0.0) }
    }

    #[test]
    fn transfers_that_overlap_share_the_link() {
        let mut busy = BusyTime::default();
        busy.add_transfer(message(0.0, 20.0));
        busy.add_transfer(message(1.0, 21.0));
        // The receiver was late.
        busy.add_transfer(message(500.0, 510.0));
        let ratio = busy.take_ratio(1.0, 0.0).unwrap();
        assert!((ratio - 31.0 / 30.0).abs() < 1e-9, "{ratio}");
        assert_eq!(busy.take_ratio(1.0, 0.0), None);
    }

    #[test]
    fn eager_messages_measure_from_the_first_that_waits() {
        let mut busy = BusyTime::default();
        // At once, then for room: the first one only for a part of what the link carries.
        busy.add_queued(message(0.0, 0.1));
        for (since, until) in [(0.2, 25.0), (0.3, 65.0), (0.4, 105.0), (0.5, 145.0)] {
            busy.add_queued(message(since, until));
        }
        assert_eq!(busy.take_ratio(1.0, 0.0), Some(4.0));
        // A rank that was scheduled late finds several of them complete.
        for (since, until) in [(0.2, 10.0), (0.3, 40.0), (0.4, 40.0), (0.5, 40.0)] {
            busy.add_queued(message(since, until));
        }
        assert_eq!(busy.take_ratio(1.0, 0.0), Some(1.0));
    }

    #[test]
    fn what_has_not_waited_measures_nothing() {
        let mut busy = BusyTime::default();
        (0..10).for_each(|_| busy.add_queued(message(0.0, 0.2)));
        assert_eq!(busy.take_ratio(f64::MIN_POSITIVE, 0.0), None);
        // Too little.
        busy.add_transfer(message(0.0, 40.0));
        assert_eq!(busy.take_ratio(11.0, 0.0), None);
    }

    #[test]
    fn messages_of_other_ranks_explain_what_they_can() {
        let ratio = |others| {
            let mut busy = BusyTime::default();
            busy.add_transfer(message(0.0, 40.0));
            busy.take_ratio(1.0, others).unwrap()
        };
        assert_eq!([0.0, 10.0, 30.0, 100.0, f64::INFINITY].map(ratio), [4.0, 2.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn a_busy_port_is_no_slow_link() {
        let mut busy = BusyTime::default();
        busy.add_transfer(LinkMessage { since: 0.0, until: 40.0, expected: 10.0, port: (5.0, 45.0) });
        assert_eq!(busy.take_ratio(1.0, 0.0), Some(1.0));
        let mut alone = BusyTime::default();
        alone.add_transfer(message(0.0, 30.0));
        alone.add_expected(5.0);
        assert_eq!(alone.take_ratio(1.0, 0.0), Some(2.0));
    }
}
