//! Multi-port buckets: several concurrent buckets on a torus or mesh that use different links in each phase.
//!
//! Cost on a p x p x p torus, six buckets: 18(p-1) alpha + n(P-1)/6 delta; on a mesh three: 9(p-1) alpha + n(P-1)/3
//! delta. Any dimensions, with a rank at every node.   [thesis 3.4.2, 3.5.3]
//!
//! The buckets take the dimensions in rotated orders (XYZ, YZX, ZXY), so no two orders use one dimension in a phase.
//! Each order can have two buckets, one per direction. In a dimension that wraps those two share no link. In one that
//! does not, each closes its ring over the links of the other, and both take twice as long. An order whose last phase,
//! the longest by far, is in a dimension that wraps gains from both directions even if the phases before lose.

use treepie_topology::Network;

use super::{Bucket, Parallel};

/// The dimensions longer than 1; the first if there are none.
pub(super) fn long_dimensions(dims: &[u32]) -> Vec<usize> {
    let long: Vec<usize> = (0..dims.len()).filter(|&dim| dims[dim] > 1).collect();
    if long.is_empty() { vec![0] } else { long }
}

fn parallel(dims: &[u32], long: &[usize], directions: &[u32], shuffled: bool) -> Parallel<Bucket> {
    let mut cores = Vec::new();
    for (first, &directions) in directions.iter().enumerate() {
        let order: Vec<usize> = (0..long.len()).map(|phase| long[(first + phase) % long.len()]).collect();
        cores.extend((0..directions).map(|direction| Bucket::new(dims, &order, direction == 1, shuffled)));
    }
    Parallel::new(cores, shuffled)
}

/// `count` buckets, clamped to one to two per dimension longer than 1.
pub fn buckets(dims: &[u32], count: u32, shuffled: bool) -> Parallel<Bucket> {
    let long = long_dimensions(dims);
    let orders = long.len() as u32;
    let count = count.clamp(1, 2 * orders);
    let directions: Vec<u32> = (0..orders).map(|order| count / orders + u32::from(order < count % orders)).collect();
    parallel(dims, &long, &directions, shuffled)
}

/// The number of buckets with the least cost for long vectors: both directions in all dimensions of a torus, one on a
/// mesh, in between if only some dimensions wrap. `None` unless the network is a torus or mesh with rank r at node r.
pub fn bucket_k(network: &Network, shuffled: bool) -> Option<Parallel<Bucket>> {
    let torus = network.as_torus().filter(|_| network.has_identity_placement())?;
    let long = long_dimensions(torus.dims());
    let rings: Vec<(u32, bool)> = long.iter().map(|&dim| (torus.dims()[dim], torus.wraps(dim))).collect();
    Some(parallel(torus.dims(), &long, &best_directions(&rings), shuffled))
}

/// The number of buckets in each rotated order: exhaustive search for the least time, then the fewest buckets.
fn best_directions(rings: &[(u32, bool)]) -> Vec<u32> {
    let all = 3u32.pow(rings.len() as u32);
    let choice = |number: u32| (0..rings.len() as u32).map(move |order| number / 3u32.pow(order) % 3);
    let better = |(time, count): (u64, u32), (other, others): (u64, u32)| {
        let (left, right) = (u128::from(time) * u128::from(others), u128::from(other) * u128::from(count));
        left < right || left == right && count < others
    };
    let mut best = (1, time(rings, &[1]));
    for number in 2..all {
        let directions: Vec<u32> = choice(number).collect();
        let cost = (time(rings, &directions).0, directions.iter().sum());
        if better(cost, best.1) {
            best = (number, cost);
        }
    }
    choice(best.0).collect()
}

/// Serialized blocks over a link, times the number of buckets, and that number.
fn time(rings: &[(u32, bool)], directions: &[u32]) -> (u64, u32) {
    let mut amounts = vec![1u64; directions.len()];
    let mut time = 0;
    for phase in 0..rings.len() {
        let mut longest = 0;
        for (order, (amount, &directions)) in amounts.iter_mut().zip(directions).enumerate() {
            let (size, wraps) = rings[(order + phase) % rings.len()];
            let load = if directions == 2 && !wraps { 2 } else { u64::from(directions.min(1)) };
            longest = longest.max(u64::from(size - 1) * *amount * load);
            *amount *= u64::from(size);
        }
        time += longest;
    }
    (time, directions.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_where_it_pays() {
        let ring = |size| (size, true);
        let line = |size| (size, false);
        assert_eq!(best_directions(&[ring(8), ring(8), ring(8)]), [2, 2, 2]);
        assert_eq!(best_directions(&[ring(8), ring(16), ring(32)]), [2, 2, 2]);
        assert_eq!(best_directions(&[line(8), line(8), line(8)]), [1, 1, 1]);
        assert_eq!(best_directions(&[line(8), line(16), line(32)]), [1, 1, 1]);
        // Two directions in the orders that end in a dimension that wraps.
        assert_eq!(best_directions(&[ring(8), line(8), line(8)]), [1, 2, 1]);
        assert_eq!(best_directions(&[ring(8), ring(8), line(8)]), [1, 2, 2]);
        assert_eq!(best_directions(&[ring(5)]), [2]);
        assert_eq!(best_directions(&[line(5)]), [1]);
        assert_eq!(best_directions(&[line(1)]), [1]);
    }
}
