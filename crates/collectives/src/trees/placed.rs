//! A tree on the ranks of a communicator, and what each rank does in which round when something goes down or up it.

use std::ops::Range;

use treepie_schedule::{Rounds, Run};

use super::tree::Tree;

/// A tree over ranks with any root.
#[derive(Clone, Debug)]
pub struct Placed {
    tree: Tree,
    /// Rank at each place of the tree.
    ranks: Vec<u32>,
    /// What each rank has to know, in one place: a round is asked for in less time than several tables take to look up.
    seats: Vec<Seat>,
    /// The root, if the ranks stand in turn.
    in_turn: Option<u32>,
    stepped: bool,
}

/// Where a rank stands in the tree.
#[derive(Clone, Copy, Debug)]
struct Seat {
    place: u32,
    /// As a rank.
    parent: u32,
    /// Where the tree lists its children.
    children: (u32, u32),
    /// The step in which it can begin to serve.
    step: u32,
}

/// Whom a rank has to do with in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<'a> {
    /// Its parent, as a rank.
    Parent(u32),
    /// Some of its children, as places of the tree; none if there is nothing to do.
    Children(&'a [u32]),
}

impl Placed {
    /// With the ranks in turn, the root first.
    pub fn rooted(tree: Tree, root: u32) -> Self {
        let ranks = tree.places();
        Self::ordered(tree, (0..ranks).map(|place| (place + root) % ranks).collect())
    }

    /// With the ranks in this order, the root first.
    pub fn ordered(tree: Tree, ranks: Vec<u32>) -> Self {
        let count = ranks.len() as u32;
        let seat = |place: u32| {
            let parent = ranks[tree.parent(place) as usize];
            Seat { place, parent, children: tree.children_at(place), step: tree.first_step(place) }
        };
        let mut seats = vec![seat(0); ranks.len()];
        (0..).zip(&ranks).for_each(|(place, rank)| seats[*rank as usize] = seat(place));
        let root = ranks[0];
        let in_turn = (0..).zip(&ranks).all(|(place, rank)| (place + root) % count == *rank).then_some(root);
        Self { tree, ranks, seats, in_turn, stepped: false }
    }

    /// The same, with one message of a rank in a round, and all ranks in step: for trees where each rank that has been
    /// served can serve in every step from then on, such as binomial ones. It then takes as many rounds as the tree has
    /// steps, and links that no two messages of a step share are never shared. Otherwise a rank serves all its children
    /// in one round, as fast as it can.
    pub fn stepped(self) -> Self {
        Self { stepped: true, ..self }
    }

    /// Whether all ranks go in step.
    pub fn is_stepped(&self) -> bool {
        self.stepped
    }

    /// Whether the ranks stand in order from 0: then contributions are combined in the order of ranks.
    pub fn is_in_order(&self) -> bool {
        self.in_turn == Some(0)
    }

    /// The root.
    pub fn root(&self) -> u32 {
        self.ranks[0]
    }

    /// How many ranks.
    pub fn ranks(&self) -> u32 {
        self.tree.places()
    }

    /// The tree over places.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Where a rank stands.
    pub fn place(&self, rank: u32) -> u32 {
        self.seats[rank as usize].place
    }

    /// Who stands at a place.
    pub fn rank_at(&self, place: u32) -> u32 {
        self.ranks[place as usize]
    }

    /// The parent; of the root, itself.
    pub fn parent(&self, rank: u32) -> u32 {
        self.rank_at(self.tree.parent(self.place(rank)))
    }

    /// Whether it has any children.
    pub fn has_children(&self, rank: u32) -> bool {
        self.tree.size(self.place(rank)) > 1
    }

    /// The children, in the order in which they are served.
    pub fn children(&self, rank: u32) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.tree.children(self.place(rank)).iter().map(|place| self.rank_at(*place))
    }

    /// Places as a view of one block for each rank: the block at a place is that of the rank there.
    pub fn runs(&self, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        if let Some(root) = self.in_turn {
            let ranks = self.ranks();
            let first = (lo + root) % ranks;
            let straight = len.min(ranks - first);
            run(Run::whole(first, straight));
            if straight < len {
                run(Run::whole(0, len - straight));
            }
            return;
        }
        let mut joined = Run::whole(0, 0);
        for block in &self.ranks[lo as usize..(lo + len) as usize] {
            if joined.blocks > 0 && joined.block + joined.blocks == *block {
                joined.blocks += 1;
            } else {
                if joined.blocks > 0 {
                    run(joined);
                }
                joined = Run::whole(*block, 1);
            }
        }
        if joined.blocks > 0 {
            run(joined);
        }
    }

    /// A rank's part in what goes along the tree.
    #[inline]
    pub fn stand(&self, rank: u32) -> Stand<'_> {
        let Seat { place, parent, children, step } = self.seats[rank as usize];
        let (served, nearest) = self.tree.listed(children);
        let count = served.len() as u32;
        // In step, everybody has a round for each step before its own.
        let (serves_from, collects_from) = match self.stepped {
            true => (step, self.tree.steps() - step - count),
            false => (u32::from(place != 0), 0),
        };
        Stand { place, parent, served, nearest, serves_from, collects_from, stepped: self.stepped }
    }
}

/// A rank's part in what goes along a tree. Rounds come in this order: some with nothing to do if all go in step, those
/// with its parent and its children on the way down, or with its children and its parent on the way up.
#[derive(Clone, Copy, Debug)]
pub struct Stand<'a> {
    place: u32,
    parent: u32,
    served: &'a [u32],
    nearest: &'a [u32],
    serves_from: u32,
    collects_from: u32,
    stepped: bool,
}

impl<'a> Stand<'a> {
    /// Where the rank stands; the root stands at 0.
    pub fn place(&self) -> u32 {
        self.place
    }

    /// Whether it has any children.
    pub fn has_children(&self) -> bool {
        !self.served.is_empty()
    }

    /// Rounds with children: one for each in step, otherwise one for all.
    fn children_rounds(&self) -> u32 {
        let children = self.served.len() as u32;
        if self.stepped { children } else { children.min(1) }
    }

    /// How many rounds it has when something goes down the tree.
    pub fn down_rounds(&self) -> u32 {
        self.serves_from + self.children_rounds()
    }

    /// In which of those rounds it serves its first child.
    pub fn serves_from(&self) -> u32 {
        self.serves_from
    }

    /// Writes such rounds: `write` gets the number of the round and whom the rank has to do with, and writes what it does.
    #[inline]
    pub fn down(&self, rounds: Range<u32>, into: &mut Rounds, mut write: impl FnMut(&mut Rounds, u32, Turn<'a>)) {
        let first = self.serves_from;
        for round in idle_before(first.saturating_sub(1), rounds, into) {
            write(
                into,
                round,
                match round.checked_sub(first) {
                    None => Turn::Parent(self.parent),
                    Some(number) if self.stepped => Turn::Children(self.one_child(number)),
                    Some(_) => Turn::Children(self.served),
                },
            );
            into.end();
        }
    }

    /// How many rounds it has when something goes up the tree.
    pub fn up_rounds(&self) -> u32 {
        self.collects_from + self.children_rounds() + u32::from(self.place != 0)
    }

    /// In which of those rounds it hears from its first child.
    pub fn collects_from(&self) -> u32 {
        self.collects_from
    }

    /// Writes such rounds, as [`down`](Self::down) does; several children come nearest first.
    #[inline]
    pub fn up(&self, rounds: Range<u32>, into: &mut Rounds, mut write: impl FnMut(&mut Rounds, u32, Turn<'a>)) {
        let last = self.collects_from + self.children_rounds();
        for round in idle_before(self.collects_from, rounds, into) {
            write(
                into,
                round,
                match last.checked_sub(round + 1) {
                    // Somebody alone may have a round, and has neither parent nor children.
                    None if self.place == 0 => Turn::Children(&[]),
                    None => Turn::Parent(self.parent),
                    // The steps of the way down, backwards.
                    Some(number) if self.stepped => Turn::Children(self.one_child(number)),
                    Some(_) => Turn::Children(self.nearest),
                },
            );
            into.end();
        }
    }

    fn one_child(&self, number: u32) -> &'a [u32] {
        self.served.get(number as usize).map_or(&[], std::slice::from_ref)
    }
}

/// Writes those of some rounds that come before the first with anything to do, and returns the others.
#[inline]
fn idle_before(first: u32, rounds: Range<u32>, into: &mut Rounds) -> Range<u32> {
    let start = rounds.end.min(first).max(rounds.start);
    into.idle(start - rounds.start);
    start..rounds.end
}
