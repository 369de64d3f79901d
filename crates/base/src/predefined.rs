//! Reductions that an MPI library knows by itself: predefined operations on predefined types.

use std::any::TypeId;

use crate::{And, Max, Min, Or, Prod, Reduction, Sum, Xor};

/// A predefined operation (`MPI_SUM` and so on).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PredefinedOp {
    /// [`Sum`].
    Sum,
    /// [`Prod`].
    Prod,
    /// [`Min`].
    Min,
    /// [`Max`].
    Max,
    /// [`And`].
    And,
    /// [`Or`].
    Or,
    /// [`Xor`].
    Xor,
}

/// A predefined type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "they are named after the types")]
pub enum PredefinedType {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

/// A predefined operation on elements of a predefined type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PredefinedReduction {
    /// The operation.
    pub op: PredefinedOp,
    /// The type.
    pub element: PredefinedType,
}

impl PredefinedReduction {
    /// What a reduction is to an MPI library, if it knows it. Minima and maxima of floating-point numbers are not the
    /// same there: MPI says nothing about NaN.
    pub fn of<T: 'static, R: Reduction<T>>() -> Option<Self> {
        let (op, element) = (predefined_op(TypeId::of::<R>())?, predefined_type(TypeId::of::<T>())?);
        let is_float = matches!(element, PredefinedType::F32 | PredefinedType::F64);
        let is_same = !is_float || matches!(op, PredefinedOp::Sum | PredefinedOp::Prod);
        is_same.then_some(Self { op, element })
    }
}

macro_rules! lookup {
    ($id:ident, $($type:ty => $found:expr),* $(,)?) => {
        $(if $id == TypeId::of::<$type>() {
            return Some($found);
        })*
    };
}

fn predefined_op(id: TypeId) -> Option<PredefinedOp> {
    use PredefinedOp as Op;
    lookup!(id, Sum => Op::Sum, Prod => Op::Prod, Min => Op::Min, Max => Op::Max, And => Op::And, Or => Op::Or, Xor => Op::Xor);
    None
}

fn predefined_type(id: TypeId) -> Option<PredefinedType> {
    use PredefinedType as Type;
    lookup!(id, i8 => Type::I8, i16 => Type::I16, i32 => Type::I32, i64 => Type::I64);
    lookup!(id, u8 => Type::U8, u16 => Type::U16, u32 => Type::U32, u64 => Type::U64);
    lookup!(id, f32 => Type::F32, f64 => Type::F64);
    #[cfg(target_pointer_width = "64")]
    lookup!(id, isize => Type::I64, usize => Type::U64);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MinLoc;

    #[test]
    fn only_what_means_the_same_is_predefined() {
        let sum = PredefinedReduction { op: PredefinedOp::Sum, element: PredefinedType::F64 };
        assert_eq!(PredefinedReduction::of::<f64, Sum>(), Some(sum));
        let max = PredefinedReduction { op: PredefinedOp::Max, element: PredefinedType::U16 };
        assert_eq!(PredefinedReduction::of::<u16, Max>(), Some(max));
        assert_eq!(PredefinedReduction::of::<f64, Max>(), None, "NaN");
        assert_eq!(PredefinedReduction::of::<u128, Sum>(), None);
        assert_eq!(PredefinedReduction::of::<crate::ValueLoc<u64>, MinLoc>(), None);
        fn of_closure<R: Reduction<u32>>(_: R) -> Option<PredefinedReduction> {
            PredefinedReduction::of::<u32, R>()
        }
        assert_eq!(of_closure(|a: u32, b: u32| a + b), None);
    }
}
