//! Links and routes common to Clos networks and flat networks: a tree of nodes, groups and one root.
//!
//! Link ids: first the uplink and downlink of each node, then those of each group.

/// Number of directed links.
pub(crate) fn links(nodes: u32, groups: u32) -> u128 {
    2 * (u128::from(nodes) + u128::from(groups))
}

/// Whether the link is a group's, not a node's.
pub(crate) fn is_group_link(nodes: u32, link: u32) -> bool {
    link >= 2 * nodes
}

/// Calls `link` for each link on the route from one (node, group) to another.
pub(crate) fn route(nodes: u32, (from, from_group): (u32, u32), (to, to_group): (u32, u32), mut link: impl FnMut(u32)) {
    if from == to {
        return;
    }
    link(2 * from);
    if from_group != to_group {
        link(2 * (nodes + from_group));
        link(2 * (nodes + to_group) + 1);
    }
    link(2 * to + 1);
}
