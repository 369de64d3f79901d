//! A tree on the ranks of a communicator, and what each rank does in which round when something goes down or up it.

use treepie_schedule::Run;

use super::tree::Tree;

/// A tree over ranks with any root.
#[derive(Clone, Debug)]
pub struct Placed {
    tree: Tree,
    /// Rank at each place of the tree, and the other way round.
    ranks: Vec<u32>,
    places: Vec<u32>,
    /// The root, if the ranks stand in turn.
    in_turn: Option<u32>,
    stepped: bool,
}

/// Whom a rank has to do with in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<'a> {
    /// Nobody.
    Nobody,
    /// Its parent, as a rank.
    Parent(u32),
    /// Some of its children, as places of the tree.
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
        let mut places = vec![0; ranks.len()];
        (0..).zip(&ranks).for_each(|(place, rank)| places[*rank as usize] = place);
        let root = ranks[0];
        let in_turn = (0..).zip(&ranks).all(|(place, rank)| (place + root) % count == *rank).then_some(root);
        Self { tree, ranks, places, in_turn, stepped: false }
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
        self.places[rank as usize]
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
    pub fn stand(&self, rank: u32) -> Stand<'_> {
        let place = self.place(rank);
        Stand {
            tree: &self.tree,
            place,
            parent: self.rank_at(self.tree.parent(place)),
            served: self.tree.children(place),
            stepped: self.stepped,
        }
    }
}

/// A rank's part in what goes along a tree.
#[derive(Clone, Copy, Debug)]
pub struct Stand<'a> {
    tree: &'a Tree,
    place: u32,
    parent: u32,
    served: &'a [u32],
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

    /// How many rounds it has when something goes down the tree.
    pub fn down_rounds(&self) -> u32 {
        let children = self.served.len() as u32;
        self.serves_from() + if self.stepped { children } else { children.min(1) }
    }

    /// In which of those rounds it serves its first child.
    pub fn serves_from(&self) -> u32 {
        if self.stepped { self.tree.first_step(self.place) } else { u32::from(self.place != 0) }
    }

    /// What it does in such a round.
    #[inline]
    pub fn down(&self, round: u32) -> Turn<'a> {
        let first = self.serves_from();
        if round >= first {
            return if self.stepped { self.one_child(round - first) } else { Turn::Children(self.served) };
        }
        if round + 1 == first { Turn::Parent(self.parent) } else { Turn::Nobody }
    }

    /// How many rounds it has when something goes up the tree.
    pub fn up_rounds(&self) -> u32 {
        let sends = u32::from(self.place != 0);
        match self.stepped {
            true => self.tree.steps() + sends - self.tree.first_step(self.place),
            false => sends + u32::from(self.has_children()),
        }
    }

    /// What it does in such a round; several children come nearest first.
    #[inline]
    pub fn up(&self, round: u32) -> Turn<'a> {
        if !self.stepped {
            let collects = round == 0 && self.has_children();
            return if collects { Turn::Children(self.tree.nearest(self.place)) } else { Turn::Parent(self.parent) };
        }
        // The steps of the way down, backwards.
        let (step, first) = (self.tree.steps() - 1 - round, self.tree.first_step(self.place));
        if step < first { Turn::Parent(self.parent) } else { self.one_child(step - first) }
    }

    fn one_child(&self, number: u32) -> Turn<'a> {
        let child = self.served.get(number as usize);
        child.map_or(Turn::Nobody, |child| Turn::Children(std::slice::from_ref(child)))
    }
}
