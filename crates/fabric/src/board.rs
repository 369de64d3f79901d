//! A board that all ranks of an engine see, and waiting at it.
//!
//! All ranks come to all meetings, in order. For a meeting a rank writes what it has to say, publishes it together with
//! what the meeting is about, and reads what others have written once they have published theirs. A rank need not wait
//! for those of whom it reads nothing.
//!
//! A rank that cannot go on with an operation leaves the board, and with that it is closed for all: those who wait there
//! fail, and nobody uses it any more. Whoever begins an operation only then does it by messages, and waits for those of ranks
//! that have done it over the board before. So whoever leaves tells all others, and each of them that is told tells all which
//! operations it has begun over the board: it will not send messages of these.

use treepie_base::{Error, Result};

use crate::call::Call;
use crate::endpoint::Endpoint;
use crate::given_up::Why;
use crate::heard::{GROUPS, run_tag};
use crate::op::Waiting;
use crate::waiting::Patience;

/// Where data lies for a meeting; the same for all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Beside the word by which a rank publishes: a few bytes.
    Line,
    /// A few thousand bytes.
    Page,
    /// Many thousand bytes, for few meetings at a time.
    Hall,
}

/// Bytes by which a rank shows where its data lies.
pub const SHOWN: usize = 16;

/// A rank's end of the board.
pub trait Board {
    /// Bytes that a rank can write for a meeting.
    fn capacity(&self, room: Room) -> usize;

    /// Writes for the coming meeting, if others have read what was there before.
    fn try_write(&mut self, room: Room, offset: usize, data: &[u8]) -> bool;

    /// Publishes what was written, and what the meeting is about, in 48 bits, if others have come as far as they must for
    /// that.
    fn try_publish(&mut self, room: Room, about: u64) -> bool;

    /// What the meeting that this rank has published last is about for another rank, if that has published it.
    fn about(&mut self, rank: u32) -> Option<u64>;

    /// What a rank has written for that meeting. Panics if it was not seen [to be there](Self::about).
    fn read(&mut self, rank: u32, room: Room, offset: usize, len: usize) -> &[u8];

    /// Writes, in [`SHOWN`] bytes, where this rank's own `data` lies, as [`try_write`](Self::try_write) does. Others can
    /// [fetch](Self::fetch) it from there, until this rank has come to the meeting after the next one: it must stay until
    /// then, or they read something else.
    fn try_show(&mut self, room: Room, offset: usize, data: &[u8]) -> bool;

    /// Reads the memory of a rank that is a process, from byte `from` of what it has shown at `offset` for this meeting.
    /// False if that cannot be done, or if there are fewer bytes. Panics if it was not seen [to be there](Self::about).
    fn fetch(&mut self, rank: u32, room: Room, offset: usize, from: usize, into: &mut [u8]) -> bool;

    /// Closes the board, and says why, with a rank.
    fn leave(&mut self, why: Why);

    /// Why the board was closed, if it was.
    fn left(&self) -> Option<Why>;

    /// Who was missing when it was last looked at.
    fn awaited(&self) -> Option<u32>;

    /// Nobody is waited for here any more: what happens at the board wakes this rank no longer.
    fn forget_awaited(&mut self);
}

/// Operations that a rank has begun at the board while others have come to none of their meetings: not more than meetings whose
/// words lie beside each other, and the one that it is in.
const MOST_AHEAD: usize = 32;

/// The operations that a rank has begun over the board, as far as others may not have.
#[derive(Default)]
pub(crate) struct Met {
    /// Their contexts and tags, the oldest of them overwritten.
    last: [(u32, u64); MOST_AHEAD],
    /// All of them.
    count: usize,
}

impl Met {
    #[inline]
    fn add(&mut self, context: u32, tag: u64) {
        self.last[self.count % MOST_AHEAD] = (context, tag);
        self.count += 1;
    }

    fn take(&mut self) -> Vec<(u32, u64)> {
        let Self { last, count } = std::mem::take(self);
        last[..count.min(MOST_AHEAD)].to_vec()
    }
}

/// How often a rank that shares its core gives others their turn before it looks after everything else.
const TURNS: u32 = 3;

const HAS_ONE: &str = "waits only where there is a board";

impl Endpoint {
    /// The engine's board, if it has one.
    #[inline]
    pub fn board(&mut self) -> Option<&mut dyn Board> {
        self.fabric.board()
    }

    /// Says for which operation ranks meet at the board from now on.
    #[inline]
    pub fn meet_for(&mut self, context: u32, tag: u64, call: Call) {
        self.core.met.add(context, tag);
        self.core.differing.meet_for(context, tag, call);
    }

    /// Leaves the board, which closes it for all.
    #[cold]
    pub fn leave_board(&mut self, why: Why) {
        let why = why.by(self.core.rank);
        let board = self.fabric.board().expect("there is one to leave");
        board.leave(why);
        // After a panic this rank may still count as one that waits there.
        board.forget_awaited();
        self.tell_met(why);
    }

    /// Somebody has given up an operation. Tells others what this rank has done over the board, if that is closed.
    #[cold]
    pub(crate) fn look_whether_board_is_closed(&mut self) {
        if let Some(why) = self.fabric.board().and_then(|board| board.left()) {
            self.tell_met(why);
        }
    }

    fn tell_met(&mut self, why: Why) {
        for (context, tag) in self.core.met.take() {
            self.tell_gave_up(context, run_tag(u32::MAX) | GROUPS, tag, why, 0..self.size());
        }
    }

    /// Waits for something at the board. An error if the rank that is missing there is lost.
    #[inline]
    pub fn wait_at_board<R>(&mut self, mut look: impl FnMut(&mut dyn Board) -> Option<R>) -> Result<R> {
        let board = self.fabric.board().expect(HAS_ONE);
        if let Some(found) = look(board) {
            return Ok(found);
        }
        // With a core of its own, whoever is waited for is mostly less than a microsecond away.
        if self.has_own_core() {
            let board = self.fabric.board().expect(HAS_ONE);
            for _ in 0..64 {
                std::hint::spin_loop();
                if let Some(found) = look(board) {
                    return Ok(found);
                }
            }
        } else {
            // Whoever is waited for is mostly only waiting for its turn. Looking after everything else before that turn
            // costs as much as giving it.
            for _ in 0..TURNS {
                self.fabric.idle(0);
                if let Some(found) = look(self.fabric.board().expect(HAS_ONE)) {
                    return Ok(found);
                }
            }
        }
        let result = self.wait_long_at_board(look);
        if result.is_err() {
            // A board that is closed would else be news for ever, and this rank would never sleep again.
            self.fabric.board().expect(HAS_ONE).forget_awaited();
        }
        result
    }

    fn wait_long_at_board<R>(&mut self, mut look: impl FnMut(&mut dyn Board) -> Option<R>) -> Result<R> {
        let mut patience = Patience::default();
        loop {
            if self.progress() {
                patience.stir();
            } else {
                self.pause(&mut patience, Waiting::For("a collective operation"));
            }
            let board = self.fabric.board().expect(HAS_ONE);
            if let Some(found) = look(board) {
                return Ok(found);
            }
            // It was known to be lost before the board was looked at, so what it did before counts.
            if let Some(rank) = board.awaited().filter(|rank| self.core.lives.is_lost(*rank)) {
                return Err(Error::PeerLost { rank: rank as usize });
            }
            if let Some(why) = board.left() {
                // Whoever closed it did so after all that it had seen: what others have seen there, this rank sees too.
                if let Some(found) = look(board) {
                    return Ok(found);
                }
                return Err(why.error(self.core.rank));
            }
            self.fail_differing_at_board()?;
        }
    }

    /// Whether ranks do not outnumber cores.
    fn has_own_core(&self) -> bool {
        self.fabric.cores().is_some_and(|cores| self.size() <= cores)
    }
}
