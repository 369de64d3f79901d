//! A random program on one rank: bodies send, handlers send in turn, and everything is accounted for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};
use treepie_am::{ActiveMessages, Builder, Call, Context, Later, Parcel, Planted, Port};
use treepie_base::{Result, Sum};
use treepie_comm::Comm;
use treepie_sim::engine::{self, Options};
use treepie_sim::noise::Random;
use treepie_topology::Network;

use crate::account::Account;
use crate::case::{Case, Form, Kind};

/// What messages say.
#[derive(Clone, Copy, Debug, Pod, Zeroable, Serialize, Deserialize)]
#[repr(C)]
struct Note {
    weight: u64,
    epoch: u32,
    /// How deep messages of its handler may be nested.
    depth: u32,
    /// How deep it is nested.
    level: u32,
    from: u32,
    /// Those with the same one and depth may be combined.
    key: u64,
}

/// A note of any length.
#[derive(Serialize, Deserialize)]
struct Letter {
    note: Note,
    pages: Vec<u8>,
}

/// What messages are sent by.
#[derive(Clone, Copy)]
struct Ports {
    plain: Port<Note>,
    combined: Port<Note>,
    sourced: Port<Note>,
    call: Call<Note, Note, [u32; 2]>,
    ask: Call<Note, Note, Later>,
    parcel: Parcel<Letter>,
}

/// The state of a rank.
struct Rank {
    case: Rc<Case>,
    account: Rc<Account>,
    ports: Ports,
    random: Random,
    epoch: u32,
}

impl Rank {
    fn draws_long_parcel(&mut self) -> bool {
        self.random.below(500) == 0
    }

    /// Draws a note, and enters it as sent.
    fn note(&mut self, cx: &Context<Self>, depth: u32, level: u32) -> Note {
        let (weight, key) = (1 + self.random.below(1000), self.random.below(4));
        self.account.send(self.epoch, level, weight);
        Note { weight, epoch: self.epoch, depth, level, from: cx.rank() as u32, key }
    }

    /// Sends a message of some kind to somebody.
    fn send(&mut self, cx: &mut Context<Self>, depth: u32, level: u32) {
        if self.account.sends(self.epoch) >= self.case.messages {
            return;
        }
        let kind = self.case.kinds[self.random.below(self.case.kinds.len() as u64) as usize];
        let to = self.random.below(cx.ranks() as u64) as usize;
        let note = self.note(cx, depth, level);
        match kind {
            Kind::Plain => cx.send(self.ports.plain, to, note),
            Kind::Combined => cx.send(self.ports.combined, to, note),
            Kind::Sourced => cx.send(self.ports.sourced, to, note),
            Kind::Call => cx.call(self.ports.call, to, [note.from, note.epoch], note),
            Kind::Ask => {
                let asked = self.epoch;
                cx.ask(self.ports.ask, to, note, move |rank, cx, answer: Note| {
                    rank.check(asked == answer.epoch, || format!("asked in epoch {asked}, answered {answer:?}"));
                    rank.handle(cx, answer);
                });
            }
            Kind::Parcel => {
                // Some do not fit into buffers, and some not into one transfer.
                let most = if self.draws_long_parcel() { 100_000 } else { 300 };
                let pages = vec![7; self.random.below(most) as usize];
                cx.post(self.ports.parcel, to, &Letter { note, pages });
            }
            Kind::Spawned => cx.spawn(to, note, |rank, cx, note| rank.handle(cx, note)),
        }
    }

    fn check(&self, is_right: bool, wrong: impl FnOnce() -> String) {
        if !is_right {
            self.account.wrong(wrong);
        }
    }

    /// Adds something to the sum.
    fn add(&mut self, cx: &mut Context<Self>, value: u64) {
        cx.add(value);
        self.account.add(self.epoch, value);
    }

    /// Enters a note as handled, and sends more.
    fn handle(&mut self, cx: &mut Context<Self>, note: Note) {
        self.account.handle(note.epoch, note.level, note.weight, cx.rank(), self.epoch);
        self.add(cx, note.weight);
        if note.depth > 0 {
            let counts = self.case.fan_out;
            let count = counts[self.random.below(counts.len() as u64) as usize];
            (0..count).for_each(|_| self.send(cx, note.depth - 1, note.level + 1));
        }
    }

    /// Handles a question, which may send more beside its answer.
    fn answer(&mut self, cx: &mut Context<Self>, question: Note) -> Note {
        self.handle(cx, question);
        self.note(cx, question.depth.saturating_sub(1), question.level + 1)
    }

    /// One item of a body.
    fn item(&mut self, cx: &mut Context<Self>) {
        let depth = self.random.below(u64::from(self.case.depth) + 1) as u32;
        (0..self.random.below(4)).for_each(|_| self.send(cx, depth, 0));
        if self.random.below(8) == 0 {
            let value = self.random.word();
            self.add(cx, value);
        }
    }
}

fn register(build: &mut Builder<Rank>, case: &Case, account: &Rc<Account>) -> Ports {
    let ports = Ports {
        plain: build.port("plain"),
        combined: build.port("combined"),
        sourced: build.port("sourced"),
        call: build.call("call"),
        ask: build.call("ask"),
        parcel: build.parcel("parcel"),
    };
    match case.form {
        Form::One => build.on(ports.plain, |rank: &mut Rank, cx, note| rank.handle(cx, note)),
        Form::Touch => build.on_touch(ports.plain, |rank, _| &rank.epoch, |rank, cx, note| rank.handle(cx, note)),
        Form::Batch => build.on_batch(ports.plain, |rank: &mut Rank, cx, notes| {
            notes.iter().for_each(|note| rank.handle(cx, *note));
        }),
    }
    build.on(ports.combined, |rank: &mut Rank, cx, note| rank.handle(cx, note));
    let account = account.clone();
    build.combine(
        ports.combined,
        |note| note.key << 32 | u64::from(note.depth),
        move |into, note| {
            into.weight += note.weight;
            if into.epoch != note.epoch {
                account.wrong(|| format!("{into:?} is combined with {note:?}"));
            }
        },
    );
    build.on_from(ports.sourced, |rank: &mut Rank, cx, from, note| {
        rank.check(from == note.from as usize, || format!("{note:?} is said to be from {from}"));
        rank.handle(cx, note);
    });
    build.on_call(
        ports.call,
        |rank: &mut Rank, cx, question| rank.answer(cx, question),
        |rank, cx, asked, answer| {
            let here = [cx.rank() as u32, rank.epoch];
            rank.check(asked == here, || format!("asked by rank and in epoch {asked:?}, answered at {here:?}"));
            rank.handle(cx, answer);
        },
    );
    build.on_ask(ports.ask, |rank: &mut Rank, cx, question| rank.answer(cx, question));
    build.on_parcel(ports.parcel, |rank: &mut Rank, cx, letter| {
        rank.check(letter.pages.iter().all(|page| *page == 7), || "a parcel has other pages".to_owned());
        rank.handle(cx, letter.note);
    });
    let config = |kind: Kind| case.configs[kind as usize].clone();
    build.configure(ports.plain, config(Kind::Plain));
    build.configure(ports.combined, config(Kind::Combined));
    build.configure(ports.sourced, config(Kind::Sourced));
    build.configure(ports.call, config(Kind::Call));
    build.configure(ports.ask, config(Kind::Ask));
    build.configure(ports.parcel, config(Kind::Parcel));
    if case.kinds.contains(&Kind::Spawned) {
        build.allow_spawn();
    }
    build.configure_all(config(Kind::Spawned));
    ports
}

fn rank_program(comm: &Comm, case: &Rc<Case>, account: &Rc<Account>, planted: Option<Planted>) -> Result<()> {
    let mut build = ActiveMessages::builder(comm);
    let ports = register(&mut build, case, account);
    build.detector(case.detector);
    build.memory(case.memory);
    if let Some(mistake) = planted {
        build.plant(mistake);
    }
    let mut am = build.start()?;
    let random = Random::new(case.seed ^ (comm.rank() as u64 + 1) << 32);
    let mut rank = Rank { case: case.clone(), account: account.clone(), ports, random, epoch: 0 };
    let pause = |random: &mut Random, most: f64| comm.compute(Duration::from_secs_f64(random.unit() * most / 1e6));
    let (between, within) = case.pauses;
    // What a body does between its items does not follow from what handlers do, nor the other way round.
    let mut own = Random::new(rank.random.word());
    for epoch in 0..case.epochs {
        rank.epoch = epoch;
        let items = if own.below(4) < case.silent { 0 } else { own.below(case.items + 1) };
        let sum = if own.below(2) == 0 {
            am.epoch_for(&mut rank, 0..items, |cx, rank, _| {
                rank.item(cx);
                pause(&mut own, within);
            })?
        } else {
            am.epoch(&mut rank, |epoch| {
                for _ in 0..items {
                    let (rank, cx) = epoch.parts();
                    rank.item(cx);
                    pause(&mut own, within);
                    if own.below(2) == 0 {
                        epoch.progress()?;
                    }
                }
                Ok(())
            })?
        };
        account.over(epoch, comm.rank(), sum);
        pause(&mut own, between);
        // Other operations of the same communicator do not get into the way; all ranks must agree about them.
        if case.seed.is_multiple_of(5) {
            let all = comm.all_reduce(&[1_u64], Sum)?;
            rank.check(all == [comm.size() as u64], || format!("{all:?} ranks"));
        }
    }
    Ok(())
}

/// Runs the program on all ranks. Returns what is wrong, or else how long it took.
pub(crate) fn run(case: &Case, planted: Option<Planted>) -> std::result::Result<f64, String> {
    let (case, account) = (Rc::new(case.clone()), Rc::new(Account::new(case.epochs, case.is_in_rounds())));
    let options = Options { limit: Some(case.limit()), ..Options::default() };
    let simulate = || {
        engine::run(&Network::flat(case.ranks), &case.settings, &options, |fabric| {
            let comm = Comm::world(fabric);
            if let Err(error) = rank_program(&comm, &case, &account, planted) {
                account.wrong(|| format!("rank {}: {error}", comm.rank()));
            }
        })
    };
    let ran = catch_unwind(AssertUnwindSafe(simulate));
    let wrong = match (account.first_wrong(), ran) {
        (Some(wrong), _) => wrong,
        (None, Ok(Ok(simulated))) => return Ok(simulated.micros()),
        (None, Ok(Err(error))) => error.to_string(),
        (None, Err(_)) => "a rank panicked".to_owned(),
    };
    Err(format!("{case}: {wrong}"))
}
