//! The registered algorithms that use neither a core nor a tree.

use super::{Algorithm, NetworkRequirement, Parameter, Requirements};
use crate::alltoall::{self, Grid, balanced_factors};
use crate::barrier::{Dissemination, RecursiveDoubling};
use crate::exchange::{BucketFan, FanInFanOut, HalvingExchange, Linear, ReduceScatterPairwise};
use crate::scan::{self, ScanKind};

pub(super) fn algorithms() -> Vec<Algorithm> {
    let any = Requirements::NONE;
    let mut all = barriers();
    all.extend([
        Algorithm::new("allgather/linear", any, &[], ("(P-1)(alpha + n beta), one round", "linear exchange"), |spec| {
            Ok(Box::new(Linear::new(spec.operation, spec.ranks)))
        }),
        Algorithm::new(
            "reduce_scatter/linear",
            any,
            &[],
            ("(P-1)(alpha + n beta), one round; memory for P-1 blocks", "linear exchange"),
            |spec| Ok(Box::new(Linear::new(spec.operation, spec.ranks))),
        ),
        Algorithm::new("reduce_scatter/pairwise", any, &[], ("(P-1)(alpha + n beta)", "thesis 3.2.2"), |spec| {
            Ok(Box::new(ReduceScatterPairwise::new(spec.ranks)))
        }),
    ]);
    all.extend(allreduces());
    all.extend(alltoalls());
    for (kind, name) in [(ScanKind::Inclusive, "scan"), (ScanKind::Exclusive, "exscan")] {
        all.push(Algorithm::new(
            format!("{name}/linear"),
            any,
            &[Parameter::Segments, Parameter::Window],
            ("s segments: (P-2+s)(alpha + n/s beta)", "pipelined chain"),
            move |spec| {
                let parameters = &spec.parameters;
                Ok(Box::new(scan::Linear::new(kind, spec.ranks, parameters.segments, parameters.window_of_one())))
            },
        ));
        all.push(Algorithm::new(
            format!("{name}/recursive_doubling"),
            any,
            &[],
            ("ceil(lg P)(alpha + n beta)", "Kogge and Stone 1973"),
            move |spec| Ok(Box::new(scan::RecursiveDoubling::new(kind, spec.ranks))),
        ));
    }
    all
}

fn barriers() -> Vec<Algorithm> {
    let any = Requirements::NONE;
    vec![
        Algorithm::new("barrier/dissemination", any, &[], ("ceil(lg P) alpha", "Hensgen et al. 1988"), |spec| {
            Ok(Box::new(Dissemination::new(spec.ranks)))
        }),
        Algorithm::new(
            "barrier/torus",
            any.on_network(NetworkRequirement::FullGrid),
            &[],
            (
                "(ceil(lg X) + ceil(lg Y) + ceil(lg Z)) alpha, along one dimension after the other",
                "Hensgen et al. 1988",
            ),
            |spec| match Dissemination::on_torus(spec.network) {
                Some(schedule) => Ok(Box::new(schedule)),
                None => Err(format!("it requires {}", NetworkRequirement::FullGrid.description())),
            },
        ),
        Algorithm::new("barrier/recursive_doubling", any, &[], ("ceil(lg P) alpha", "thesis 3.2.1"), |spec| {
            Ok(Box::new(RecursiveDoubling::new(spec.ranks)))
        }),
    ]
}

fn allreduces() -> Vec<Algorithm> {
    let any = Requirements::NONE;
    vec![
        Algorithm::new(
            "allreduce/linear",
            any,
            &[],
            ("(P-1)(alpha + n beta), one round; memory for P vectors", "linear exchange"),
            |spec| Ok(Box::new(Linear::new(spec.operation, spec.ranks))),
        ),
        Algorithm::new(
            "allreduce/recursive_doubling",
            any,
            &[],
            ("ceil(lg P)(alpha + n beta)", "thesis 3.2.1"),
            |spec| Ok(Box::new(HalvingExchange::recursive_doubling(spec.ranks))),
        ),
        Algorithm::new(
            "allreduce/halving_exchange",
            any,
            &[Parameter::Halvings],
            ("h halvings: (lg P + h) alpha + (2(1 - 2^-h) + 2^-h (lg P - h)) n beta", "thesis 3.2.1"),
            |spec| Ok(Box::new(HalvingExchange::new(spec.ranks, spec.parameters.halvings))),
        ),
        Algorithm::new(
            "allreduce/alternating_exchange",
            any.on_network(NetworkRequirement::PowerOfTwoGrid).commutative(),
            &[Parameter::Halvings],
            ("p x p mesh, all halvings: 2 lg P alpha + (9/4 - 3/(2p)) n delta", "thesis 3.2.1"),
            |spec| {
                let dims = spec.network.as_torus().map_or(&[][..], |torus| torus.dims());
                match HalvingExchange::alternating(dims, spec.parameters.halvings) {
                    Some(schedule) => Ok(Box::new(schedule)),
                    None => Err(format!("it requires {}", NetworkRequirement::PowerOfTwoGrid.description())),
                }
            },
        ),
        Algorithm::new(
            "allreduce/fan_in_fan_out",
            any,
            &[],
            ("2 ceil(lg P)(alpha + n beta)", "thesis 3.2.1"),
            |spec| Ok(Box::new(FanInFanOut::new(spec.ranks))),
        ),
        Algorithm::new(
            "allreduce/bucket_fan",
            any.commutative(),
            &[],
            ("X columns, Y rows: (2(X-1) + 2 lg Y)(alpha + n/X delta)", "thesis 3.2.1"),
            |spec| {
                let columns = match spec.network.as_torus().filter(|_| spec.network.has_identity_placement()) {
                    Some(torus) => torus.dims()[0],
                    None => balanced_factors(spec.ranks, 2)[0],
                };
                Ok(Box::new(BucketFan::new(columns, spec.ranks / columns)))
            },
        ),
    ]
}

fn alltoalls() -> Vec<Algorithm> {
    let any = Requirements::NONE.not_in_place();
    vec![
        Algorithm::new(
            "alltoall/linear",
            any,
            &[],
            ("(P-1)(alpha + n/P beta), one round", "linear exchange"),
            |spec| Ok(Box::new(Linear::new(spec.operation, spec.ranks))),
        ),
        Algorithm::new("alltoall/pairwise", any, &[], ("(P-1)(alpha + n/P beta)", "pairwise exchange"), |spec| {
            Ok(Box::new(alltoall::Pairwise::new(spec.ranks)))
        }),
        Algorithm::new(
            "alltoall/bruck",
            any.uniform_blocks(),
            &[],
            ("ceil(lg P)(alpha + n/2 beta)", "Bruck et al. 1997"),
            |spec| Ok(Box::new(alltoall::Bruck::new(spec.ranks))),
        ),
        Algorithm::new(
            "alltoall/grid",
            any.uniform_blocks(),
            &[Parameter::Dimensions],
            ("d dimensions: d(P^(1/d)-1) alpha + d n (P^(1/d)-1)/P^(1/d) beta", "RandomAccess paper"),
            |spec| Ok(Box::new(Grid::balanced(spec.ranks, spec.parameters.dimensions))),
        ),
        Algorithm::new(
            "alltoall/hypercube",
            any.uniform_blocks(),
            &[],
            (
                "P a power of two, or unequal counts: ceil(lg P)(alpha + n/2 beta); else a grid of P's prime factors",
                "RandomAccess paper",
            ),
            |spec| Ok(Box::new(Grid::balanced(spec.ranks, u32::BITS))),
        ),
    ]
}
