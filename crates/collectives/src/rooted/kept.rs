//! A binomial tree over what the ranks of a core keep at first, so that a subtree's share is a range.

use treepie_schedule::{Buf, Core, Part, Run};

use crate::trees::{Placed, Tree};

/// The view of this: position q stands for all that the rank at place q of the tree keeps at first. Cores number their
/// views from 1 and never come so far.
pub const VIEW: u8 = 255;

/// A binomial tree over as many ranks as the core has, in step.
pub(crate) fn binomial(core: &dyn Core, root: u32) -> Placed {
    Placed::rooted(Tree::knomial(core.ranks(), 2), root).stepped()
}

/// What the ranks of a place's subtree keep.
pub(crate) fn subtree(tree: &Placed, buf: Buf, place: u32) -> Part {
    Part::viewed(buf, VIEW, place, tree.tree().size(place))
}

/// Turns positions into pieces: of the view above, or of one of the core's.
pub(crate) fn runs(core: &dyn Core, tree: &Placed, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
    if view != VIEW {
        return core.runs(view, lo, len, run);
    }
    let of = core.cuts();
    for place in lo..lo + len {
        core.kept(tree.rank_at(place), &mut |block, seg| run(Run { block, blocks: 1, seg, of }));
    }
}
