//! Faults that tests inject, to check that they are found. Without the feature `fault-injection` there are none.

/// A fault that tests inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "fault-injection"), expect(unreachable_pub, dead_code))]
pub enum InjectedFault {
    /// A buffer is counted some time after it was sent.
    LateSendCount,
    /// Caches are not flushed at the end.
    UnflushedCaches,
    /// Termination is concluded from one wave.
    SingleWave,
    /// Messages do not carry the number of their epoch.
    UntaggedEpochs,
}

/// The fault of a runtime, if one was injected.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FaultInjection {
    #[cfg(feature = "fault-injection")]
    pub(crate) fault: Option<InjectedFault>,
    /// Buffers sent and not yet counted.
    #[cfg(feature = "fault-injection")]
    uncounted_sends: u64,
}

#[cfg(feature = "fault-injection")]
impl FaultInjection {
    pub(crate) fn is(&self, fault: InjectedFault) -> bool {
        self.fault == Some(fault)
    }

    /// The counter of sent buffers.
    pub(crate) fn send_counter<'a>(&'a mut self, sent: &'a mut u64) -> &'a mut u64 {
        if self.is(InjectedFault::LateSendCount) { &mut self.uncounted_sends } else { sent }
    }

    pub(crate) fn take_uncounted_sends(&mut self) -> u64 {
        std::mem::take(&mut self.uncounted_sends)
    }
}

#[cfg(not(feature = "fault-injection"))]
impl FaultInjection {
    pub(crate) fn is(&self, _: InjectedFault) -> bool {
        false
    }

    pub(crate) fn send_counter<'a>(&'a mut self, sent: &'a mut u64) -> &'a mut u64 {
        sent
    }

    pub(crate) fn take_uncounted_sends(&mut self) -> u64 {
        0
    }
}
