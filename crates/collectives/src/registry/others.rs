//! Algorithms that are made of neither a core nor a tree.

use super::{Algorithm, Networks, Parameter, Requires};
use crate::alltoall::{self, Grid, balanced_factors};
use crate::barrier::{Dissemination, RecursiveDoubling};
use crate::exchange::{
    AllgatherLinear, AllgatherReduce, BucketFan, FanInFanOut, HalvingExchange, ReduceScatterLinear,
    ReduceScatterPairwise,
};
use crate::scan::{self, Own};

pub(super) fn algorithms() -> Vec<Algorithm> {
    let any = Requires::NOTHING;
    let mut all = barriers();
    all.extend([
        Algorithm::new("allgather/linear", any, &[], ("(P-1)(alpha + n beta), one round", "all at once"), |request| {
            Ok(Box::new(AllgatherLinear::new(request.ranks)))
        }),
        Algorithm::new(
            "reduce_scatter/linear",
            any,
            &[],
            ("(P-1)(alpha + n beta), one round; memory for P-1 blocks", "all at once"),
            |request| Ok(Box::new(ReduceScatterLinear::new(request.ranks))),
        ),
        Algorithm::new("reduce_scatter/pairwise", any, &[], ("(P-1)(alpha + n beta)", "thesis 3.2.2"), |request| {
            Ok(Box::new(ReduceScatterPairwise::new(request.ranks)))
        }),
    ]);
    all.extend(allreduces());
    all.extend(alltoalls());
    for (own, name) in [(Own::Included, "scan"), (Own::Excluded, "exscan")] {
        all.push(Algorithm::new(
            format!("{name}/linear"),
            any,
            &[Parameter::Segments, Parameter::Window],
            ("s segments: (P-2+s)(alpha + n/s beta)", "a chain"),
            move |request| {
                let parameters = &request.parameters;
                Ok(Box::new(scan::Linear::new(own, request.ranks, parameters.segments, parameters.window)))
            },
        ));
        all.push(Algorithm::new(
            format!("{name}/recursive_doubling"),
            any,
            &[],
            ("ceil(lg P)(alpha + n beta)", "Kogge and Stone 1973"),
            move |request| Ok(Box::new(scan::RecursiveDoubling::new(own, request.ranks))),
        ));
    }
    all
}

fn barriers() -> Vec<Algorithm> {
    let any = Requires::NOTHING;
    vec![
        Algorithm::new("barrier/dissemination", any, &[], ("ceil(lg P) alpha", "Hensgen et al. 1988"), |request| {
            Ok(Box::new(Dissemination::new(request.ranks)))
        }),
        Algorithm::new(
            "barrier/torus",
            any.on(Networks::FullGrid),
            &[],
            (
                "(ceil(lg X) + ceil(lg Y) + ceil(lg Z)) alpha, along one dimension after the other",
                "Hensgen et al. 1988",
            ),
            |request| match Dissemination::on(request.network) {
                Some(schedule) => Ok(Box::new(schedule)),
                None => Err(format!("it needs {}", Networks::FullGrid.needs())),
            },
        ),
        Algorithm::new("barrier/recursive_doubling", any, &[], ("ceil(lg P) alpha", "thesis 3.2.1"), |request| {
            Ok(Box::new(RecursiveDoubling::new(request.ranks)))
        }),
    ]
}

fn allreduces() -> Vec<Algorithm> {
    let any = Requires::NOTHING;
    vec![
        Algorithm::new(
            "allreduce/linear",
            any,
            &[],
            ("(P-1)(alpha + n beta), one round; memory for P vectors", "all at once"),
            |request| Ok(Box::new(AllgatherReduce::new(request.ranks))),
        ),
        Algorithm::new(
            "allreduce/recursive_doubling",
            any,
            &[],
            ("ceil(lg P)(alpha + n beta)", "thesis 3.2.1"),
            |request| Ok(Box::new(HalvingExchange::recursive_doubling(request.ranks))),
        ),
        Algorithm::new(
            "allreduce/halving_exchange",
            any,
            &[Parameter::Halvings],
            ("h halvings: (lg P + h) alpha + (2(1 - 2^-h) + 2^-h (lg P - h)) n beta", "thesis 3.2.1"),
            |request| Ok(Box::new(HalvingExchange::new(request.ranks, request.parameters.halvings))),
        ),
        Algorithm::new(
            "allreduce/alternating_exchange",
            any.on(Networks::PowersOfTwo).commuting(),
            &[Parameter::Halvings],
            ("p x p mesh, all halvings: 2 lg P alpha + (9/4 - 3/(2p)) n delta", "thesis 3.2.1"),
            |request| {
                let dims = request.network.torus_kind().map_or(&[][..], |torus| torus.dims());
                match HalvingExchange::alternating(dims, request.parameters.halvings) {
                    Some(schedule) => Ok(Box::new(schedule)),
                    None => Err(format!("it needs {}", Networks::PowersOfTwo.needs())),
                }
            },
        ),
        Algorithm::new(
            "allreduce/fan_in_fan_out",
            any,
            &[],
            ("2 ceil(lg P)(alpha + n beta)", "thesis 3.2.1"),
            |request| Ok(Box::new(FanInFanOut::new(request.ranks))),
        ),
        Algorithm::new(
            "allreduce/bucket_fan",
            any.commuting(),
            &[],
            ("X columns, Y rows: (2(X-1) + 2 lg Y)(alpha + n/X delta)", "thesis 3.2.1"),
            |request| {
                let columns = match request.network.torus_kind().filter(|_| request.network.is_whole()) {
                    Some(torus) => torus.dims()[0],
                    None => balanced_factors(request.ranks, 2)[0],
                };
                Ok(Box::new(BucketFan::new(columns, request.ranks / columns)))
            },
        ),
    ]
}

fn alltoalls() -> Vec<Algorithm> {
    let any = Requires::NOTHING.not_in_place();
    vec![
        Algorithm::new("alltoall/linear", any, &[], ("(P-1)(alpha + n/P beta), one round", "all at once"), |request| {
            Ok(Box::new(alltoall::Linear::new(request.ranks)))
        }),
        Algorithm::new("alltoall/pairwise", any, &[], ("(P-1)(alpha + n/P beta)", "exchange of pairs"), |request| {
            Ok(Box::new(alltoall::Pairwise::new(request.ranks)))
        }),
        Algorithm::new(
            "alltoall/bruck",
            any.routed(),
            &[],
            ("ceil(lg P)(alpha + n/2 beta)", "Bruck et al. 1997"),
            |request| Ok(Box::new(alltoall::Bruck::new(request.ranks))),
        ),
        Algorithm::new(
            "alltoall/grid",
            any.routed(),
            &[Parameter::Dimensions],
            ("d dimensions: d(P^(1/d)-1) alpha + d n (P^(1/d)-1)/P^(1/d) beta", "RandomAccess paper"),
            |request| Ok(Box::new(Grid::balanced(request.ranks, request.parameters.dimensions))),
        ),
        Algorithm::new(
            "alltoall/hypercube",
            any.routed(),
            &[],
            (
                "P a power of two, or unequal counts: ceil(lg P)(alpha + n/2 beta); else a grid of P's prime factors",
                "RandomAccess paper",
            ),
            |request| Ok(Box::new(Grid::balanced(request.ranks, u32::BITS))),
        ),
    ]
}
