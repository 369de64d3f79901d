//! The measuring side of a P-LogP measurement, over messages to a mirror.   [P-LogP paper 2.2, figure 4]

use std::time::Duration;

use treepie_comm::{Comm, Rank};
use treepie_model::plogp::Probe;

use crate::mirror::{CAR, NUMBER, REPLY, RETURN, SINK, SIZE, STOP, TRAIN, TRIP};
use crate::{Error, Result};

/// Messages of a train after which the sender handles what has arrived: the credit for further messages.
const PROGRESS_INTERVAL: u64 = 256;

/// A trip of a short message is repeated for this many microseconds, and the fastest counts: what disturbs a trip only
/// makes it longer. On a link where trips take longer than that, their average matters, and their bytes.
const REPEAT_TIME: f64 = 100.0;

/// At most as many trips.
const MAX_REPEATS: f64 = 9.0;

/// A trip that takes longer than this multiple of the fastest was disturbed, and is repeated in any case.
const DISTURBED: f64 = 4.0;

/// At most as many trips.
const MAX_DISTURBED: f64 = 4.0;

/// Sizes up to this are warmed up and repeated wherever ranks are: their bytes do not matter.
const SMALL: u64 = 4096;

/// Probes of the link to another rank of a communicator, which runs [`serve`](crate::serve) meanwhile.
///
/// The time is that of [`Comm::now`], so in a simulation it is virtual. A wait takes the time without receiving:
/// elsewhere the rank watches the clock. A message above the eager limit is only announced before it is received, so
/// its receive overhead has the rendezvous in it, as has its gap.
pub struct MessageProbe<'a> {
    comm: &'a Comm,
    mirror: Rank,
    /// When the measurement should be over, by the clock of the communicator.
    deadline: Option<Duration>,
    /// The size that the mirror knows, and the memory of messages.
    size: Option<u64>,
    data: Vec<u8>,
    /// Bytes of all messages in both directions.
    traffic: u64,
    /// The fastest trip, and the fastest delayed receive, of this size.
    fastest: [f64; 2],
    /// Whether time is virtual.
    is_simulated: bool,
    /// Whether large messages are cheap enough to send another one of each size first.
    on_one_machine: bool,
    /// Microseconds to read the clock.
    clock: f64,
    is_over: bool,
}

impl<'a> MessageProbe<'a> {
    /// A probe of the link to rank `mirror`. Messages must not be used otherwise on the communicator meanwhile.
    pub fn new(comm: &'a Comm, mirror: Rank) -> Self {
        let is_simulated = comm.engine() == "sim";
        Self {
            comm,
            mirror,
            deadline: None,
            size: None,
            data: Vec::new(),
            traffic: 0,
            fastest: [f64::INFINITY; 2],
            is_simulated,
            on_one_machine: comm.ranks_per_core().is_some(),
            clock: if is_simulated { 0.0 } else { clock_cost(comm) },
            is_over: false,
        }
    }

    /// The measurement shall end when [`Comm::now`] is `deadline`.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = Some(deadline);
    }

    /// Bytes that all messages had so far, in both directions.
    pub fn traffic(&self) -> u64 {
        self.traffic
    }

    /// Ends the loop of the mirror. Dropping the probe does the same, and hides errors.
    pub fn finish(mut self) -> Result<()> {
        self.is_over = true;
        Ok(self.comm.send::<u8>(&[], self.mirror, STOP)?)
    }

    /// The time of a blocking send, which is synchronous or not.
    pub fn blocking_send(&mut self, bytes: u64, synchronous: bool) -> Result<f64> {
        self.prepare(bytes)?;
        self.traffic += bytes;
        let (comm, data, start) = (self.comm, &self.data[..bytes as usize], self.comm.now());
        if synchronous { comm.ssend(data, self.mirror, SINK) } else { comm.send(data, self.mirror, SINK) }?;
        let time = self.micros_since(start);
        // Not to disturb the next one.
        self.trip_once(0)?;
        Ok(time)
    }

    fn micros_since(&self, start: Duration) -> f64 {
        ((self.comm.now() - start).as_secs_f64() * 1e6 - self.clock).max(0.0)
    }

    /// Tells the mirror a number and waits until it is ready.
    fn command(&mut self, tag: u32, number: u64) -> Result<()> {
        self.traffic += NUMBER as u64;
        self.comm.send(&number.to_le_bytes(), self.mirror, tag)?;
        self.wait_for_reply()
    }

    fn wait_for_reply(&self) -> Result<()> {
        self.comm.recv(&mut [0u8; 0], self.mirror, REPLY)?;
        Ok(())
    }

    /// Both sides have memory for this size, and have used it.
    fn prepare(&mut self, bytes: u64) -> Result<()> {
        if self.size == Some(bytes) {
            return Ok(());
        }
        self.data.resize(self.data.len().max(bytes as usize), 1);
        self.command(SIZE, bytes)?;
        (self.size, self.fastest) = (Some(bytes), [f64::INFINITY; 2]);
        if !self.is_simulated && (self.on_one_machine || bytes <= SMALL) {
            self.trip_once(bytes)?;
            self.return_once(bytes, 0.0)?;
        }
        Ok(())
    }

    /// A message and an empty reply: the time of the send, and of all.
    fn trip_once(&mut self, bytes: u64) -> Result<(f64, f64)> {
        self.traffic += bytes;
        let (data, start) = (&self.data[..bytes as usize], self.comm.now());
        if bytes as usize <= self.comm.eager_limit() {
            self.comm.send(data, self.mirror, TRIP)?;
            let send = self.micros_since(start);
            self.wait_for_reply()?;
            return Ok((send, self.micros_since(start)));
        }
        // A rendezvous completes while this rank waits for the reply.
        let send = self.comm.scope(|scope| {
            let sending = scope.isend(data, self.mirror, TRIP)?;
            let send = self.micros_since(start);
            self.comm.recv(&mut [0u8; 0], self.mirror, REPLY)?;
            sending.wait()?;
            Ok(send)
        })?;
        Ok((send, self.micros_since(start)))
    }

    /// An empty message, a wait, and the receive of a reply: its time.
    fn return_once(&mut self, bytes: u64, wait: f64) -> Result<f64> {
        self.traffic += bytes;
        self.comm.send::<u8>(&[], self.mirror, RETURN)?;
        self.wait(Duration::from_secs_f64(wait * 1e-6));
        let (data, start) = (&mut self.data[..bytes as usize], self.comm.now());
        self.comm.recv(data, self.mirror, REPLY)?;
        Ok(self.micros_since(start))
    }

    fn wait(&self, time: Duration) {
        if self.is_simulated {
            return self.comm.compute(time);
        }
        let end = self.comm.now() + time;
        while self.comm.now() < end {
            // The mirror may be on the same core.
            std::thread::yield_now();
        }
    }

    /// Repeats what is short or was disturbed, and returns the fastest.
    fn undisturbed<T>(
        &mut self,
        which: usize,
        time_of: fn(&T) -> f64,
        mut once: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let (mut best, mut count) = (once(self)?, 1.0);
        while !self.is_simulated {
            let disturbed = time_of(&best) > DISTURBED * self.fastest[which] && count < MAX_DISTURBED;
            let repeats = if self.size <= Some(SMALL) { (REPEAT_TIME / time_of(&best)).min(MAX_REPEATS) } else { 1.0 };
            if !disturbed && count >= repeats {
                break;
            }
            let again = once(self)?;
            if time_of(&again) < time_of(&best) {
                best = again;
            }
            count += 1.0;
        }
        self.fastest[which] = self.fastest[which].min(time_of(&best));
        Ok(best)
    }
}

impl Probe for MessageProbe<'_> {
    type Error = Error;

    fn saturate(&mut self, messages: u64) -> Result<f64> {
        if messages == 1 {
            // Trains of one are round trips, and as easily disturbed.
            self.prepare(0)?;
            return self.undisturbed(0, |time| *time, |probe| Ok(probe.trip_once(0)?.1));
        }
        self.command(TRAIN, messages)?;
        let start = self.comm.now();
        for number in 1..=messages {
            self.comm.send::<u8>(&[], self.mirror, CAR)?;
            if number % PROGRESS_INTERVAL == 0 {
                self.comm.progress();
            }
        }
        self.wait_for_reply()?;
        Ok(self.micros_since(start))
    }

    fn round_trip(&mut self, bytes: u64) -> Result<(f64, f64)> {
        self.prepare(bytes)?;
        self.undisturbed(0, |(_, time)| *time, |probe| probe.trip_once(bytes))
    }

    fn delayed_recv(&mut self, bytes: u64, wait: f64) -> Result<f64> {
        self.prepare(bytes)?;
        self.undisturbed(1, |time| *time, |probe| probe.return_once(bytes, wait))
    }

    fn has_time(&mut self, micros: f64) -> bool {
        let end = self.comm.now().as_secs_f64() + micros * 1e-6;
        self.deadline.is_none_or(|deadline| end <= deadline.as_secs_f64())
    }
}

impl Drop for MessageProbe<'_> {
    fn drop(&mut self) {
        if !self.is_over && !std::thread::panicking() {
            // If the mirror is lost, there is nobody to tell.
            let _ = self.comm.send::<u8>(&[], self.mirror, STOP);
        }
    }
}

/// Microseconds to read the clock: the least of several averages.
fn clock_cost(comm: &Comm) -> f64 {
    const READINGS: u32 = 64;
    let average = |_| {
        let start = comm.now();
        for _ in 1..READINGS {
            std::hint::black_box(comm.now());
        }
        (comm.now() - start).as_secs_f64() * 1e6 / f64::from(READINGS)
    };
    (0..8).map(average).fold(f64::INFINITY, f64::min)
}
