//! Memory that other ranks read, write and add to, where the engine has no memory of its own that all can reach: by
//! records that the owner handles whenever it makes progress.

use std::collections::{HashMap, HashSet};

use treepie_base::{Error, Result};

use crate::core::{Action, Core};
use crate::endpoint::Endpoint;
use crate::engine::{Head, Life};
use crate::kind::{self, words};
use crate::op::Waiting;
use crate::waiting::Patience;

/// The parts of windows that lie at this rank, and answers to what this rank asked of others.
#[derive(Default)]
pub(crate) struct Memories {
    parts: HashMap<u32, Vec<u8>>,
    /// Those that others may read until they are told otherwise.
    tables: HashSet<u32>,
    /// Writes of this rank that their owners have not confirmed.
    unconfirmed: usize,
    /// The answer to the question with that number, the only one that can be outstanding. Those to questions that were given up
    /// may come later.
    answer: Option<Vec<u8>>,
    question: u32,
    /// Questions about parts that are still to be made.
    early: Vec<Question>,
}

/// Somebody wants to read a part.
struct Question {
    from: u32,
    window: u32,
    number: u32,
    at: u64,
    len: usize,
}

impl Core {
    pub(crate) fn window_record(&mut self, from: u32, head: Head, body: &[u8]) {
        let reply = |kind| Head { kind, context: head.context, slot: head.slot, ..Head::default() };
        match head.what() {
            kind::WINDOW_PUT => {
                let [at] = words(body);
                self.memories.write(head.context, at, &body[8..]);
                let head = reply(kind::WINDOW_PUT_DONE);
                self.actions.push(Action::Send { to: from, head, body: kind::Body::EMPTY });
            }
            kind::WINDOW_GET => {
                let [at, len] = words(body);
                let question = Question { from, window: head.context, number: head.slot, at, len: len as usize };
                // Tables that ranks share are made without a barrier. A rank that leaves makes no more of them.
                if self.memories.parts.contains_key(&head.context) || self.leaving {
                    self.answer_get(&question);
                } else {
                    self.memories.early.push(question);
                }
            }
            kind::WINDOW_ADD => {
                let [at, value] = words(body);
                let old = self.memories.add(head.context, at, value);
                self.actions.push(Action::Send { to: from, head: reply(kind::WINDOW_GOT), body: kind::body([old]) });
            }
            kind::WINDOW_PUT_DONE => self.memories.unconfirmed -= 1,
            kind::WINDOW_GOT if head.slot == self.memories.question => self.memories.answer = Some(body.to_vec()),
            kind::WINDOW_GOT => {}
            other => unreachable!("a record of kind {other}"),
        }
    }

    /// Nobody needs to wait for parts that will not be made.
    pub(crate) fn refuse_early_questions(&mut self) {
        let early = std::mem::take(&mut self.memories.early);
        early.iter().for_each(|question| self.answer_get(question));
    }

    /// Says what is there, or nothing if there is no such part.
    fn answer_get(&mut self, question: &Question) {
        let Question { from, window, number, at, len } = *question;
        let is_there = self.memories.parts.contains_key(&window);
        let body = if is_there { self.memories.read(window, at, len).to_vec() } else { Vec::new() };
        let head = Head { kind: kind::WINDOW_GOT, context: window, slot: number, ..Head::default() };
        self.actions.push(Action::SendLong { to: from, head, body });
    }
}

impl Memories {
    pub(crate) fn has_tables(&self) -> bool {
        !self.tables.is_empty()
    }

    fn part(&mut self, window: u32) -> &mut Vec<u8> {
        self.parts.get_mut(&window).expect("a window is used between its creation and its end")
    }

    fn read(&mut self, window: u32, at: u64, len: usize) -> &[u8] {
        &self.part(window)[at as usize..at as usize + len]
    }

    fn write(&mut self, window: u32, at: u64, data: &[u8]) {
        self.part(window)[at as usize..at as usize + data.len()].copy_from_slice(data);
    }

    fn add(&mut self, window: u32, at: u64, value: u64) -> u64 {
        let word: &mut [u8] = &mut self.part(window)[at as usize..at as usize + 8];
        let old = u64::from_ne_bytes((&*word).try_into().expect("8 bytes"));
        word.copy_from_slice(&old.wrapping_add(value).to_ne_bytes());
        old
    }
}

/// Windows by records. Ranks are ranks of the world; the caller keeps accesses inside what the owner made.
impl Endpoint {
    /// Makes this rank's part of a window, zero at first. Others may use it once all ranks have made theirs.
    pub fn window_make(&mut self, window: u32, bytes: usize) -> Result<()> {
        let part = treepie_base::memory::zeroed(bytes, "a rank's part of a window")?;
        self.core.memories.parts.insert(window, part);
        Ok(())
    }

    /// Makes this rank's part of a table that others only read. They may do so before, and then wait for it; and also when this
    /// rank leaves, until they do so as well or the part is ended.
    pub fn window_make_table(&mut self, window: u32, part: Vec<u8>) {
        let memories = &mut self.core.memories;
        memories.parts.insert(window, part);
        memories.tables.insert(window);
        let early: Vec<Question> = memories.early.extract_if(.., |question| question.window == window).collect();
        early.iter().for_each(|question| self.core.answer_get(question));
        self.act();
    }

    /// Ends this rank's part, when nobody uses it any more.
    pub fn window_end(&mut self, window: u32) {
        self.core.memories.parts.remove(&window);
        self.core.memories.tables.remove(&window);
    }

    /// Writes. Done at the owner after the next [`window_flush`](Self::window_flush).
    pub fn window_put(&mut self, window: u32, rank: u32, at: u64, data: &[u8]) -> Result<()> {
        if rank == self.core.rank {
            self.core.memories.write(window, at, data);
            return Ok(());
        }
        let piece = self.fabric.max_body() - 8;
        let mut record = Vec::with_capacity(8 + piece.min(data.len()));
        for (i, data) in data.chunks(piece).enumerate() {
            record.clear();
            record.extend_from_slice(&(at + (i * piece) as u64).to_ne_bytes());
            record.extend_from_slice(data);
            self.window_send(kind::WINDOW_PUT, window, rank, &record)?;
            self.core.memories.unconfirmed += 1;
        }
        Ok(())
    }

    /// Reads.
    pub fn window_get(&mut self, window: u32, rank: u32, at: u64, into: &mut [u8]) -> Result<()> {
        if rank == self.core.rank {
            into.copy_from_slice(self.core.memories.read(window, at, into.len()));
            return Ok(());
        }
        let piece = self.fabric.max_body();
        for (i, into) in into.chunks_mut(piece).enumerate() {
            let question = kind::body([at + (i * piece) as u64, into.len() as u64]);
            self.window_ask(kind::WINDOW_GET, window, rank, question.as_slice())?;
            let answer = self.window_answer(rank)?;
            if answer.len() != into.len() {
                return Err(Error::PeerLost { rank: rank as usize });
            }
            into.copy_from_slice(&answer);
        }
        Ok(())
    }

    /// Adds to a word and returns what was there.
    pub fn window_fetch_add(&mut self, window: u32, rank: u32, at: u64, value: u64) -> Result<u64> {
        if rank == self.core.rank {
            return Ok(self.core.memories.add(window, at, value));
        }
        self.window_ask(kind::WINDOW_ADD, window, rank, kind::body([at, value]).as_slice())?;
        let [old] = words(&self.window_answer(rank)?);
        Ok(old)
    }

    /// Waits until all writes of this rank are done at their owners.
    pub fn window_flush(&mut self) -> Result<()> {
        self.window_wait(None, |endpoint| (endpoint.core.memories.unconfirmed == 0).then_some(()))
    }

    fn window_ask(&mut self, kind: u32, window: u32, rank: u32, body: &[u8]) -> Result<()> {
        let memories = &mut self.core.memories;
        memories.question = memories.question.wrapping_add(1);
        memories.answer = None;
        self.window_send(kind, window, rank, body)
    }

    fn window_send(&mut self, kind: u32, window: u32, rank: u32, body: &[u8]) -> Result<()> {
        let head = Head { kind, context: window, slot: self.core.memories.question, ..Head::default() };
        self.window_wait(Some(rank), |endpoint| {
            (!endpoint.core.outbox.holds_for(rank) && endpoint.fabric.try_send(rank, head, body)).then_some(())
        })
    }

    fn window_answer(&mut self, rank: u32) -> Result<Vec<u8>> {
        self.window_wait(Some(rank), |endpoint| endpoint.core.memories.answer.take())
    }

    fn window_wait<T>(&mut self, rank: Option<u32>, mut ready: impl FnMut(&mut Self) -> Option<T>) -> Result<T> {
        self.wait_alone("an access to a window", |endpoint| {
            if let Some(value) = ready(endpoint) {
                return Some(Ok(value));
            }
            // One that leaves still answers.
            let lives = &endpoint.core.lives;
            let is_gone = |rank: &u32| !matches!(lives.of(*rank), Life::Here | Life::Leaving);
            let lost = rank.map_or(lives.first(), |rank| Some(rank).filter(is_gone))?;
            // What it did before it ended counts.
            endpoint.drain();
            Some(ready(endpoint).ok_or(Error::PeerLost { rank: lost as usize }))
        })
    }

    /// Waits until there is something in memory that a rank writes to without telling. An error if that rank is lost before.
    pub fn wait_until<T>(&mut self, what: &'static str, rank: u32, ready: impl Fn() -> Option<T>) -> Result<T> {
        self.wait_alone(what, |endpoint| {
            // Looked at in this order: it may have written before it was lost.
            let is_lost = endpoint.core.lives.is_lost(rank);
            match ready() {
                Some(value) => Some(Ok(value)),
                None => is_lost.then_some(Err(Error::PeerLost { rank: rank as usize })),
            }
        })
    }

    /// Waits without stepping tasks: one of them may be who waits, and no other may ask for something meanwhile.
    fn wait_alone<T>(
        &mut self,
        what: &'static str,
        mut ended: impl FnMut(&mut Self) -> Option<Result<T>>,
    ) -> Result<T> {
        let are_held = std::mem::replace(&mut self.tasks.are_held, true);
        let mut patience = Patience::default();
        let result = loop {
            if let Some(result) = ended(self) {
                break result;
            }
            if self.progress() {
                patience.stir();
            } else {
                self.pause(&mut patience, Waiting::For(what));
            }
        };
        self.tasks.are_held = are_held;
        self.came_past = true;
        result
    }
}
