//! Measuring a link: g(0) by many messages in a row, everything else by round trips of a few sizes.
//! [P-LogP paper 2.2]
//!
//! This is the procedure alone. It has no clock and sends nothing: who measures implements [`Probe`], and a test can be
//! a network itself. Links are taken to be the same in both directions; of others each direction is measured by itself,
//! with *measure* and *mirror* exchanged.
//!
//! Two things are not in the paper. A difference counts only if it is greater than what the confidence intervals of the
//! measurements explain, as otherwise noise is bisected. And jumps that are left when sizes are as near as they are to
//! be become knees of the tables, as lines across them would be wrong on both sides.

use super::curve::{Point, is_off, is_wide, table};
use super::samples::Samples;
use super::{PLogP, RoundTrip};
use crate::Error;
use crate::error::{not_negative, positive};

/// Two processes that exchange messages, seen from the one that measures. Times are microseconds.
pub trait Probe {
    /// Why a message could not be exchanged, or why nothing can be made of what was measured.
    type Error: From<crate::Error>;

    /// RTT_n(0): so many empty messages in a row, and one empty reply to the last.
    fn saturate(&mut self, messages: u64) -> Result<f64, Self::Error>;

    /// The first round trip: so many bytes there and nothing back. How long the send took, and how long all of it.
    fn there(&mut self, bytes: u64) -> Result<(f64, f64), Self::Error>;

    /// The second: nothing there; wait so long, that the reply has come; then receive so many bytes. How long the
    /// receive took.
    fn back(&mut self, bytes: u64, wait: f64) -> Result<f64, Self::Error>;
}

/// When a measurement is good enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// epsilon: the share by which values may differ.
    pub tolerance: f64,
    /// k_m: sizes are 2^0 to 2^k_m at least,
    pub least_power: u32,
    /// and as long as gaps are not linear, up to this power of two.
    pub most_power: u32,
    /// Sizes that differ by so many bytes, or by the tolerance, are near enough.
    pub nearest: u64,
    /// Round trips of each size at first.
    pub first_trips: u32,
    /// At most so many of small messages,
    pub most_trips: u32,
    /// and of large ones.
    pub most_large_trips: u32,
    /// From so many bytes on messages are large. The paper does not say.
    pub large: u64,
    /// At most so many messages in a row.
    pub most_messages: u64,
}

impl Default for Rules {
    /// The paper's, with five trips at first, large messages from 64 KiB on, and an end to doubling.
    fn default() -> Self {
        Self {
            tolerance: 0.01,
            least_power: 18,
            most_power: 26,
            nearest: 32,
            first_trips: 5,
            most_trips: 60,
            most_large_trips: 15,
            large: 65_536,
            most_messages: 1 << 20,
        }
    }
}

impl Rules {
    /// Refuses rules by which nothing can be measured.
    pub fn checked(self) -> crate::Result<Self> {
        positive("the tolerance", self.tolerance)?;
        positive("the number of first round trips", self.first_trips.into())?;
        positive("the number of round trips", self.most_trips.min(self.most_large_trips).into())?;
        let (what, value) = ("the largest power of two", self.least_power.max(self.most_power));
        if value > 40 {
            return Err(Error::Parameter { what, value: value.into(), needs: "at most 40" });
        }
        Ok(self)
    }
}

/// g(0), and how it was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturation {
    /// Microseconds for a message of those in a row.
    pub gap: f64,
    /// How many there were.
    pub messages: u64,
    /// Whether the rules were met. Otherwise there were as many as are allowed.
    pub reached: bool,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The link's parameters, with their knees.
    pub link: PLogP,
    /// g(0).
    pub saturation: Saturation,
    /// The means of all sizes, in rising order.
    pub trips: Vec<RoundTrip>,
}

/// Measures a link.
pub fn measure<P: Probe>(probe: &mut P, rules: &Rules) -> Result<Measured, P::Error> {
    let rules = &rules.checked()?;
    let mut saturation = saturate(probe, rules)?;
    let nothing = size(probe, rules, 0)?;
    // Where there is hardly a latency, noise can make it negative.
    saturation.gap = saturation.gap.min(nothing.time.mean() / 2.0);
    let functions = Functions { shift: saturation.gap - nothing.time.mean() };
    let mut sizes = vec![nothing];
    for power in 0..=rules.least_power {
        sizes.push(size(probe, rules, 1 << power)?);
    }
    let mut power = rules.least_power;
    while power < rules.most_power && is_off(&functions.gap(&sizes), sizes.len() - 1, rules) {
        power += 1;
        sizes.push(size(probe, rules, 1 << power)?);
    }
    let mut at = 2;
    while at < sizes.len() {
        let (before, here) = (sizes[at - 1].bytes, sizes[at].bytes);
        if is_wide(before, here, rules) && functions.all(&sizes).iter().any(|points| is_off(points, at, rules)) {
            // What is between comes next, and then again what was here, seen from there.
            sizes.insert(at, size(probe, rules, before + (here - before) / 2)?);
        } else {
            at += 1;
        }
    }
    let [gap, send, receive] = functions.all(&sizes);
    let link = PLogP::new(
        (sizes[0].time.mean() - 2.0 * saturation.gap) / 2.0,
        table("the send overhead os", &send, rules)?,
        table("the receive overhead or", &receive, rules)?,
        table("the gap g", &gap, rules)?,
    )?;
    Ok(Measured { link, saturation, trips: sizes.iter().map(Size::trip).collect() })
}

/// g(0): n = 1, 10, and then twice as many, until the gap stays the same and the round trip does not matter any more.
fn saturate<P: Probe>(probe: &mut P, rules: &Rules) -> Result<Saturation, P::Error> {
    let mut one = Samples::default();
    while more(&[&one], rules, rules.most_trips) {
        one.push(checked(probe.saturate(1)?)?);
    }
    let reply = one.mean() / 2.0;
    let (mut messages, mut gap) = (10, one.mean() - reply);
    loop {
        let all = checked(probe.saturate(messages)?)?;
        let before = gap;
        gap = ((all - reply) / messages as f64).max(0.0);
        let reached = (gap - before).abs() <= rules.tolerance * before && one.mean() < rules.tolerance * all;
        if reached || 2 * messages > rules.most_messages {
            return Ok(Saturation { gap, messages, reached });
        }
        messages *= 2;
    }
}

/// Both round trips of a size, until their means are known well enough or there were too many.
fn size<P: Probe>(probe: &mut P, rules: &Rules, bytes: u64) -> Result<Size, P::Error> {
    let mut all = Size { bytes, ..Size::default() };
    let most = if bytes >= rules.large { rules.most_large_trips } else { rules.most_trips };
    while more(&[&all.time, &all.send, &all.receive], rules, most) {
        let (send, time) = probe.there(bytes)?;
        all.send.push(checked(send)?);
        all.time.push(checked(time)?);
        all.receive.push(checked(probe.back(bytes, 2.0 * time)?)?);
    }
    Ok(all)
}

fn checked(time: f64) -> crate::Result<f64> {
    not_negative("a measured time", time)?;
    Ok(time)
}

/// Whether one more trip is needed.
fn more(samples: &[&Samples], rules: &Rules, most: u32) -> bool {
    let count = samples[0].count();
    let vague = samples.iter().any(|samples| samples.interval() > rules.tolerance * samples.mean());
    count < rules.first_trips.min(most) || count < most && vague
}

/// All that was measured of one size.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    bytes: u64,
    time: Samples,
    send: Samples,
    receive: Samples,
}

impl Size {
    fn trip(&self) -> RoundTrip {
        let Self { bytes, time, send, receive } = self;
        RoundTrip { bytes: *bytes as f64, time: time.mean(), send: send.mean(), receive: receive.mean() }
    }
}

/// The functions of the size that follow from the measurements.
struct Functions {
    /// g(0) - RTT(0): what a gap is more than its round trip.
    shift: f64,
}

impl Functions {
    fn gap(&self, sizes: &[Size]) -> Vec<Point> {
        // Of larger messages that seem to be faster than empty ones.
        let gap = |size: &Size| Point::new(size.bytes, (size.time.mean() + self.shift).max(0.0), size.time.interval());
        sizes.iter().map(gap).collect()
    }

    /// Gap, send and receive overhead.
    fn all(&self, sizes: &[Size]) -> [Vec<Point>; 3] {
        let of = |samples: fn(&Size) -> Samples| {
            let point = |size: &Size| Point::new(size.bytes, samples(size).mean(), samples(size).interval());
            sizes.iter().map(point).collect()
        };
        [self.gap(sizes), of(|size| size.send), of(|size| size.receive)]
    }
}
