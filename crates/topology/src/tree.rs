//! Links and routes that Clos networks, clusters and flat networks share: nodes hang on groups, groups on one root.
//!
//! Link ids: first up and down of each node, then up and down of each group.

/// Directed links of so many nodes and groups.
pub(crate) fn links(places: u32, groups: u32) -> u128 {
    2 * (u128::from(places) + u128::from(groups))
}

/// Whether the link belongs to a group, not to a node.
pub(crate) fn is_group_link(places: u32, link: u32) -> bool {
    link >= 2 * places
}

/// Calls `link` for each link from a place, in a group, to another place.
pub(crate) fn route(
    places: u32,
    (from, from_group): (u32, u32),
    (to, to_group): (u32, u32),
    mut link: impl FnMut(u32),
) {
    if from == to {
        return;
    }
    link(2 * from);
    if from_group != to_group {
        link(2 * (places + from_group));
        link(2 * (places + to_group) + 1);
    }
    link(2 * to + 1);
}
