//! Applications that use the whole library.
#![forbid(unsafe_code)]

pub mod randomaccess;
