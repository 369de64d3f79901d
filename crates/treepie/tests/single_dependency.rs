//! Programs that depend on `treepie` and on nothing else.
//!
//! They are compiled as cargo would compile them, with `treepie` as the only crate that they can name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

/// A temporary folder, removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("treepie-alone-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The library that was compiled for these tests, and the folder of its dependencies.
fn library() -> (PathBuf, PathBuf) {
    let test = std::env::current_exe().unwrap();
    let dependencies = test.parent().unwrap().to_path_buf();
    let is_library = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("libtreepie-") && name.ends_with(".rlib")
    };
    let age = |path: &PathBuf| fs::metadata(path).and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let found = fs::read_dir(&dependencies).unwrap().flatten().map(|entry| entry.path());
    let newest = found.filter(|path| is_library(path)).max_by_key(age);
    (newest.expect("the library is in the folder of the tests"), dependencies)
}

fn compile(folder: &Folder, program: &str) -> Output {
    let (library, dependencies) = library();
    let source = folder.0.join("main.rs");
    fs::write(&source, program).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", "--crate-type", "bin", "--emit", "metadata", "-D", "warnings"]);
    command.arg("--extern").arg(format!("treepie={}", library.display()));
    command.arg("-L").arg(format!("dependency={}", dependencies.display()));
    command.arg("--out-dir").arg(&folder.0).arg(&source).output().unwrap()
}

#[test]
fn element_types_are_derived() {
    let program = r#"
        #![forbid(unsafe_code)]
        use treepie::prelude::*;

        /// With attributes of others, and types with parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
        #[repr(C)]
        pub struct Particle {
            /// Where.
            pub position: [f64; 3],
            pub(crate) mass: f64,
            wrapped: core::num::Wrapping<u64>,
        }

        #[derive(Clone, Copy, Pod, Zeroable)]
        #[repr(transparent)]
        struct Id(pub u64);

        #[derive(Clone, Copy, Pod, Zeroable)]
        #[repr(C)]
        struct Pair(pub(crate) Id, u64);

        #[derive(Clone, Copy, Pod, Zeroable)]
        #[repr(C)]
        struct Nothing;

        #[derive(Zeroable)]
        struct Any {
            flag: bool,
            number: u64,
        }

        #[derive(Clone, Copy, treepie::bytemuck::Pod, treepie::bytemuck::Zeroable)]
        #[bytemuck(crate = "treepie::bytemuck")]
        #[repr(transparent)]
        struct Generic<T>(T);

        fn main() -> treepie::Result<()> {
            let world = treepie::init()?;
            let sent = [Particle { position: [1.0; 3], mass: 2.0, wrapped: core::num::Wrapping(3) }];
            world.send(&sent, 0, 0)?;
            assert_eq!(world.recv_vec::<Particle>(ANY_SOURCE, 0)?.0, sent);
            let pair = Pair(Id(1), 2);
            let any = Any::zeroed();
            assert!(pair.0.0 + pair.1 == 3 && !any.flag && any.number == 0);
            world.send(&[Nothing], 0, 1)?;
            world.send(&[Generic(1u8)], 0, 1)?;
            assert_eq!(Generic::<u8>::zeroed().0, 0);
            Ok(())
        }
    "#;
    let output = compile(&Folder::new(), program);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn types_that_are_not_plain_data_are_refused_with_the_reason() {
    let cases = [
        ("#[repr(C)] struct T { a: u8, b: u32 }", "T has padding"),
        ("#[repr(C)] struct T { a: u32, b: bool }", "the trait bound `bool: "),
        ("struct T { a: u32 }", "add #[repr(C)] or #[repr(transparent)]"),
        ("#[repr(C, align(16))] struct T(u64);", "T has padding"),
        ("#[repr(u8)] enum T { A = 0 }", "only structs without parameters"),
        ("#[repr(C)] struct T<A>(A);", "only structs without parameters"),
        ("#[repr(C)] struct T(&'static u8);", "the trait bound `&'static u8: "),
    ];
    for (item, reason) in cases {
        let program =
            format!("use treepie::prelude::*;\n#[derive(Clone, Copy, Pod, Zeroable)]\n{item}\nfn main() {{}}\n");
        let output = compile(&Folder::new(), &program);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.contains(reason), "{item}: {stderr}");
    }
}
