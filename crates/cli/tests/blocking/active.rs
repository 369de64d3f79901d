//! Active messages.

use treepie::am::{self, ActiveMessages, Detector, OwnerMessages, Port};
use treepie::{Comm, Result};

use crate::table::{Call, Outcome, RANKS, Trial};

pub(crate) const CALLS: &[Call] = &[
    Call::new(&["Builder::start"], |t| t.fails(|| started(t.world, Detector::Auto))),
    Call::new(&["ActiveMessages::epoch_for"], |t| epoch(t, Detector::Auto)).sample(),
    Call::new(&["ActiveMessages::epoch_for, counting"], |t| epoch(t, Detector::FourCounter)),
    Call::new(&["ActiveMessages::epoch_for, by consensus"], |t| epoch(t, Detector::Consensus)),
    Call::new(&["ActiveMessages::epoch", "Epoch::progress"], |t| {
        let (mut am, update) = started(t.world, Detector::Auto)?;
        t.fails(|| {
            am.epoch(&mut 0, |epoch| {
                for to in 0..RANKS {
                    epoch.context().send(update, to, 1);
                    epoch.progress()?;
                }
                Ok(())
            })
        })
    }),
    Call::new(&["run"], |t| {
        t.fails(|| am::run(t.world, &mut 0, 0..100, |i| *i as usize % RANKS, |sum, _, i: u32| *sum += i))
    }),
    Call::new(&["run_objects"], |t| {
        let texts = || (0..10).map(|i| i.to_string());
        t.fails(|| am::run_objects(t.world, &mut (), texts(), |text| text.len() % RANKS, |_, _, _| ()))
    }),
    Call::new(&["OwnerMessages::start"], |t| {
        t.fails(|| OwnerMessages::start(t.world, &mut (), |i: &u32| *i as usize, |_, _, _| ()).map(drop))
    }),
    Call::new(&["OwnerMessages::start_objects"], |t| {
        t.fails(|| OwnerMessages::start_objects(t.world, &mut (), |text: &String| text.len(), |_, _, _| ()).map(drop))
    }),
    Call::new(&["OwnerMessages::epoch"], |t| {
        let mut count = 0;
        let mut am =
            OwnerMessages::start(t.world, &mut count, |i| *i as usize % RANKS, |count, _, _: u32| *count += 1)?;
        t.fails(|| am.epoch(0..100))
    }),
];

/// An active-message runtime with one message type, whose handler counts the messages.
pub(crate) fn started(comm: &Comm, detector: Detector) -> Result<(ActiveMessages<u64>, Port<u32>)> {
    let mut build = ActiveMessages::<u64>::builder(comm);
    let update = build.port::<u32>("update");
    build.on(update, |count: &mut u64, _, _| *count += 1);
    build.detector(detector);
    Ok((build.start()?, update))
}

fn epoch(t: &Trial<'_>, detector: Detector) -> Outcome {
    let (mut am, update) = started(t.world, detector)?;
    t.fails(|| am.epoch_for(&mut 0, 0..100, |cx, _, i| cx.send(update, i as usize % RANKS, i)))
}
