//! A binomial tree over the initial blocks of the ranks of a core: those of a subtree are a range.

use treepie_schedule::{AllgatherCore, BlockRange, BlockRun, Buf};

use crate::trees::{RankTree, Tree};

/// The view of the initial blocks: position v is all that virtual rank v of the tree initially owns. Cores number their
/// views from 1 and never reach this number.
pub const VIEW: u8 = 255;

/// A binomial tree over the ranks of the core, in lockstep.
pub(crate) fn binomial(core: &dyn AllgatherCore, root: u32) -> RankTree {
    RankTree::with_root(Tree::knomial(core.ranks(), 2), root).lockstep()
}

/// The initial blocks of the subtree of a virtual rank.
pub(crate) fn subtree_range(tree: &RankTree, buf: Buf, vrank: u32) -> BlockRange {
    BlockRange::in_view(buf, VIEW, vrank, tree.tree().subtree_size(vrank))
}

/// Resolves [`VIEW`], or one of the core's views.
pub(crate) fn resolve_view(
    core: &dyn AllgatherCore,
    tree: &RankTree,
    view: u8,
    lo: u32,
    len: u32,
    run: &mut dyn FnMut(BlockRun),
) {
    if view != VIEW {
        return core.resolve_view(view, lo, len, run);
    }
    let segments = core.segments();
    for vrank in lo..lo + len {
        core.initial_blocks(tree.rank_at(vrank), &mut |block, segment| {
            run(BlockRun { block, blocks: 1, segment, segments })
        });
    }
}
