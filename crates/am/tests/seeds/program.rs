//! A random program on one rank: bodies send, handlers send in turn, and all messages are accounted for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};
use treepie_am::{ActiveMessages, Builder, Call, Context, ContinuationId, InjectedFault, Parcel, Port};
use treepie_base::{Result, Sum};
use treepie_comm::Comm;
use treepie_sim::engine::{self, Options};
use treepie_sim::noise::SplitMix64;
use treepie_topology::Network;

use super::account::Account;
use super::case::{Case, Form, MessageKind};

/// The content of a message.
#[derive(Clone, Copy, Debug, Pod, Zeroable, Serialize, Deserialize)]
#[repr(C)]
struct Payload {
    weight: u64,
    epoch: u32,
    /// Maximum nesting depth of messages of its handler.
    depth: u32,
    /// Its nesting depth.
    level: u32,
    from: u32,
    /// Messages with the same key and depth may be combined.
    key: u64,
}

/// A payload of variable length.
#[derive(Serialize, Deserialize)]
struct LongPayload {
    payload: Payload,
    pages: Vec<u8>,
}

/// The message types.
#[derive(Clone, Copy)]
struct Ports {
    plain: Port<Payload>,
    combined: Port<Payload>,
    with_source: Port<Payload>,
    call: Call<Payload, Payload, [u32; 2]>,
    call_then: Call<Payload, Payload, ContinuationId>,
    parcel: Parcel<LongPayload>,
}

/// The state of a rank.
struct Rank {
    case: Rc<Case>,
    account: Rc<Account>,
    ports: Ports,
    random: SplitMix64,
    epoch: u32,
}

impl Rank {
    fn draws_long_parcel(&mut self) -> bool {
        self.random.below(500) == 0
    }

    /// Draws a payload, and records it as sent.
    fn draw_payload(&mut self, cx: &Context<Self>, depth: u32, level: u32) -> Payload {
        let (weight, key) = (1 + self.random.below(1000), self.random.below(4));
        self.account.send(self.epoch, level, weight);
        Payload { weight, epoch: self.epoch, depth, level, from: cx.rank() as u32, key }
    }

    /// Sends a message of a random kind to a random rank.
    fn send(&mut self, cx: &mut Context<Self>, depth: u32, level: u32) {
        if self.account.sends(self.epoch) >= self.case.messages {
            return;
        }
        let kind = self.case.kinds[self.random.below(self.case.kinds.len() as u64) as usize];
        let to = self.random.below(cx.ranks() as u64) as usize;
        let payload = self.draw_payload(cx, depth, level);
        match kind {
            MessageKind::Plain => cx.send(self.ports.plain, to, payload),
            MessageKind::Combined => cx.send(self.ports.combined, to, payload),
            MessageKind::WithSource => cx.send(self.ports.with_source, to, payload),
            MessageKind::Call => cx.call(self.ports.call, to, [payload.from, payload.epoch], payload),
            MessageKind::CallThen => {
                let called = self.epoch;
                cx.call_then(self.ports.call_then, to, payload, move |rank, cx, reply: Payload| {
                    rank.check(called == reply.epoch, || format!("called in epoch {called}, reply {reply:?}"));
                    rank.handle(cx, reply);
                });
            }
            MessageKind::Parcel => {
                // Some do not fit into a buffer, and some not into one transfer.
                let most = if self.draws_long_parcel() { 100_000 } else { 300 };
                let pages = vec![7; self.random.below(most) as usize];
                cx.send_parcel(self.ports.parcel, to, &LongPayload { payload, pages });
            }
            MessageKind::Spawned => cx.spawn(to, payload, |rank, cx, payload| rank.handle(cx, payload)),
        }
    }

    fn check(&self, is_right: bool, wrong: impl FnOnce() -> String) {
        if !is_right {
            self.account.fail(wrong);
        }
    }

    /// Adds to the sum of the epoch.
    fn add(&mut self, cx: &mut Context<Self>, value: u64) {
        cx.add_to_sum(value);
        self.account.add(self.epoch, value);
    }

    /// Records a payload as handled, and sends more.
    fn handle(&mut self, cx: &mut Context<Self>, payload: Payload) {
        self.account.handle(payload.epoch, payload.level, payload.weight, cx.rank(), self.epoch);
        self.add(cx, payload.weight);
        if payload.depth > 0 {
            let counts = self.case.fan_out;
            let count = counts[self.random.below(counts.len() as u64) as usize];
            (0..count).for_each(|_| self.send(cx, payload.depth - 1, payload.level + 1));
        }
    }

    /// Handles a request, which may send more beside its reply.
    fn reply(&mut self, cx: &mut Context<Self>, request: Payload) -> Payload {
        self.handle(cx, request);
        self.draw_payload(cx, request.depth.saturating_sub(1), request.level + 1)
    }

    /// One item of a body.
    fn item(&mut self, cx: &mut Context<Self>) {
        let depth = self.random.below(u64::from(self.case.depth) + 1) as u32;
        (0..self.random.below(4)).for_each(|_| self.send(cx, depth, 0));
        if self.random.below(8) == 0 {
            let value = self.random.next_u64();
            self.add(cx, value);
        }
    }
}

fn register(build: &mut Builder<Rank>, case: &Case, account: &Rc<Account>) -> Ports {
    let ports = Ports {
        plain: build.port("plain"),
        combined: build.port("combined"),
        with_source: build.port("with_source"),
        call: build.call("call"),
        call_then: build.call("call_then"),
        parcel: build.parcel("parcel"),
    };
    match case.form {
        Form::One => build.on(ports.plain, |rank: &mut Rank, cx, payload| rank.handle(cx, payload)),
        Form::Prefetch => {
            build.on_prefetch(ports.plain, |rank, _| &rank.epoch, |rank, cx, payload| rank.handle(cx, payload))
        }
        Form::Batch => build.on_batch(ports.plain, |rank: &mut Rank, cx, payloads| {
            payloads.iter().for_each(|payload| rank.handle(cx, *payload));
        }),
    }
    build.on(ports.combined, |rank: &mut Rank, cx, payload| rank.handle(cx, payload));
    let account = account.clone();
    build.combine(
        ports.combined,
        |payload| payload.key << 32 | u64::from(payload.depth),
        move |into, payload| {
            into.weight += payload.weight;
            if into.epoch != payload.epoch {
                account.fail(|| format!("{into:?} is combined with {payload:?}"));
            }
        },
    );
    build.on_from(ports.with_source, |rank: &mut Rank, cx, from, payload| {
        rank.check(from == payload.from as usize, || format!("{payload:?} is said to be from {from}"));
        rank.handle(cx, payload);
    });
    build.on_call(
        ports.call,
        |rank: &mut Rank, cx, request| rank.reply(cx, request),
        |rank, cx, called, reply| {
            let here = [cx.rank() as u32, rank.epoch];
            rank.check(called == here, || format!("called by rank and in epoch {called:?}, reply at {here:?}"));
            rank.handle(cx, reply);
        },
    );
    build.on_call_then(ports.call_then, |rank: &mut Rank, cx, request| rank.reply(cx, request));
    build.on_parcel(ports.parcel, |rank: &mut Rank, cx, long| {
        rank.check(long.pages.iter().all(|page| *page == 7), || "a parcel has other pages".to_owned());
        rank.handle(cx, long.payload);
    });
    let config = |kind: MessageKind| case.configs[kind as usize].clone();
    build.configure(ports.plain, config(MessageKind::Plain));
    build.configure(ports.combined, config(MessageKind::Combined));
    build.configure(ports.with_source, config(MessageKind::WithSource));
    build.configure(ports.call, config(MessageKind::Call));
    build.configure(ports.call_then, config(MessageKind::CallThen));
    build.configure(ports.parcel, config(MessageKind::Parcel));
    if case.kinds.contains(&MessageKind::Spawned) {
        build.allow_spawn();
    }
    build.configure_all(config(MessageKind::Spawned));
    ports
}

fn rank_program(
    comm: &Comm,
    case: &Rc<Case>,
    account: &Rc<Account>,
    injected_fault: Option<InjectedFault>,
) -> Result<()> {
    let mut build = ActiveMessages::builder(comm);
    let ports = register(&mut build, case, account);
    build.detector(case.detector);
    build.memory_limit(case.memory);
    if let Some(fault) = injected_fault {
        build.inject_fault(fault);
    }
    let mut am = build.start()?;
    let random = SplitMix64::new(case.seed ^ (comm.rank() as u64 + 1) << 32);
    let mut rank = Rank { case: case.clone(), account: account.clone(), ports, random, epoch: 0 };
    let pause =
        |random: &mut SplitMix64, most: f64| comm.compute(Duration::from_secs_f64(random.next_f64() * most / 1e6));
    let (between, within) = case.pauses;
    // The random numbers of the body are independent of those of the handlers.
    let mut body_random = SplitMix64::new(rank.random.next_u64());
    for epoch in 0..case.epochs {
        rank.epoch = epoch;
        let items = if body_random.below(4) < case.silent { 0 } else { body_random.below(case.items + 1) };
        let sum = if body_random.below(2) == 0 {
            am.epoch_for(&mut rank, 0..items, |cx, rank, _| {
                rank.item(cx);
                pause(&mut body_random, within);
            })?
        } else {
            am.epoch(&mut rank, |epoch| {
                for _ in 0..items {
                    let (rank, cx) = epoch.parts();
                    rank.item(cx);
                    pause(&mut body_random, within);
                    if body_random.below(2) == 0 {
                        epoch.progress()?;
                    }
                }
                Ok(())
            })?
        };
        account.over(epoch, comm.rank(), sum);
        pause(&mut body_random, between);
        // Other collective operations on the same communicator do not interfere; all ranks must call them.
        if case.seed.is_multiple_of(5) {
            let all = comm.allreduce(&[1_u64], Sum)?;
            rank.check(all == [comm.size() as u64], || format!("{all:?} ranks"));
        }
    }
    Ok(())
}

/// Runs the program on all ranks. Returns its time, or the first error.
pub(crate) fn run(case: &Case, injected_fault: Option<InjectedFault>) -> std::result::Result<f64, String> {
    let (case, account) = (Rc::new(case.clone()), Rc::new(Account::new(case.epochs, case.is_in_rounds())));
    let options = Options { time_limit: Some(case.limit()), ..Options::default() };
    let simulate = || {
        engine::run(&Network::flat(case.ranks), &case.settings, &options, |fabric| {
            let comm = Comm::world(fabric);
            if let Err(error) = rank_program(&comm, &case, &account, injected_fault) {
                account.fail(|| format!("rank {}: {error}", comm.rank()));
            }
        })
    };
    let ran = catch_unwind(AssertUnwindSafe(simulate));
    let wrong = match (account.first_error(), ran) {
        (Some(wrong), _) => wrong,
        (None, Ok(Ok(simulated))) => return Ok(simulated.micros()),
        (None, Ok(Err(error))) => error.to_string(),
        (None, Err(_)) => "a rank panicked".to_owned(),
    };
    Err(format!("{case}: {wrong}"))
}
